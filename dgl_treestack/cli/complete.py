"""`treestack complete`."""

from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from dgl_treestack.cli._arguments import Cpus, Json, OnCluster, OptionalRun, Precision, print_json, where


def complete(
    question: Annotated[
        Positional[str],
        arg(help='An equation with a blank, "sin(x)**2 + _ = 1", or a file of blanks, which is ranked: .jsonl, .json, .gz.'),
    ],
    *,
    run: OptionalRun = None,
    candidates: Annotated[
        Path | None, arg(help="A file of fillers. Default: the one that the file of blanks names; else small expressions.")
    ] = None,
    top: Annotated[int, arg(help="For an equation: how many fillers to show.")] = 10,
    output: Annotated[Path | None, arg(help="For a file of blanks: also write the records here.")] = None,
    precision: Precision = "float32",
    jobs: Annotated[int, arg(help="For a file of blanks: processes that share it out; the records are the same.")] = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    json: Json = False,
) -> None:
    """Show the likeliest fillers for the blank of an equation, or the ranks of the right ones for a file of blanks."""
    import torch

    from dgl_treestack import atomic
    from dgl_treestack.completion.records import evaluate, shares
    from dgl_treestack.completion.scoring import fill
    from dgl_treestack.data import formats, records
    from dgl_treestack.errors import ConfigurationError
    from dgl_treestack.expression import Equation, Expression
    from dgl_treestack.resources import BUNDLED
    from dgl_treestack.runs.pretrained import open_run, trust

    if top < 1:
        raise ConfigurationError(f"--top {top} shows nothing. Give a number from 1 on.")
    opened, dtype = open_run(run), getattr(torch, precision)
    if question.startswith(BUNDLED) or question.endswith(formats.SUFFIXES):
        tasks = where(jobs, cluster, cpus_per_task)
        table = evaluate(opened, question, candidates, dtype=dtype, quiet=False, jobs=tasks)
        if output:
            atomic.write_json_lines(output, records.rows_of(table))
        rows = list(shares(table))
        print_json(rows) if json else print(_columns(rows))
        return
    equation, model = Equation.parse(question), opened.load_model(dtype)
    names = {} if candidates else model.known_names(equation)
    answers = fill(model, equation.with_variables(names), candidates, top)
    for answer in answers:
        filler = Expression.parse(answer["filler"]).with_variables({new: old for old, new in names.items()})
        answer["filler"] = str(filler)
    if json:
        print_json(answers)
        return
    width = max(len(answer["filler"]) for answer in answers)
    print(f"{equation}   (depth {equation.depth})\nrank  {'filler':<{width}}  P(correct)  numeric check")
    for number, answer in enumerate(answers, 1):
        print(f"{number:>4}  {answer['filler']:<{width}}  {answer['probability']:>10.3f}  {answer['verdict']}")
    first = next((number for number, answer in enumerate(answers, 1) if answer["verdict"] == "holds"), None)
    print(f"The first that holds is number {first}." if first else "None of these holds. Ask for more with --top.")
    print(trust(opened, equation))


def _columns(rows: list[dict[str, Any]]) -> str:
    """Return rows with the same keys as text in right-aligned columns."""
    names = list(rows[0])
    lines = [names]
    lines += [[f"{row[name]:.1f}" if isinstance(row[name], float) else str(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
