"""`treestack complete`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack import atomic
from dgl_treestack.cli import Cpus, Json, OnCluster, OptionalRun, Precision, print_json, refuse_if, where
from dgl_treestack.data import formats
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.plain_data import align
from dgl_treestack.resources import BUNDLED


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

    from dgl_treestack.completion.records import evaluate, shares
    from dgl_treestack.completion.scoring import fill
    from dgl_treestack.data import records
    from dgl_treestack.runs.pretrained import open_run, trust

    refuse_if({f"--top {top} shows nothing. Give a number from 1 on.": top < 1})
    opened, dtype = open_run(run), getattr(torch, precision)
    if question.startswith(BUNDLED) or question.endswith(formats.SUFFIXES):
        tasks = where(jobs, cluster, cpus_per_task)
        table = evaluate(opened, question, candidates, dtype=dtype, quiet=False, jobs=tasks)
        if output:
            atomic.write_json_lines(output, records.rows_of(table))
        rows = list(shares(table))
        lines = [[f"{value:.1f}" if isinstance(value, float) else value for value in row.values()] for row in rows]
        print_json(rows) if json else print(align([list(rows[0]), *lines], ">"))
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
    shown = [
        (rank, answer["filler"], f"{answer['probability']:.3f}", answer["verdict"]) for rank, answer in enumerate(answers, 1)
    ]
    print(f"{equation}   (depth {equation.depth})")
    print(align([("rank", "filler", "P(correct)", "numeric check"), *shown], "><><"))
    first = next((number for number, _, _, verdict in shown if verdict == "holds"), None)
    print(f"The first that holds is number {first}." if first else "None of these holds. Ask for more with --top.")
    print(trust(opened, equation))
