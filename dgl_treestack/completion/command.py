"""`treestack complete`."""

import json
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import truth
from dgl_treestack.completion import questions
from dgl_treestack.completion.choices import choices
from dgl_treestack.completion.records import COMPLETION, make_records, table
from dgl_treestack.completion.scoring import scores
from dgl_treestack.data import formats, records
from dgl_treestack.errors import ConfigurationError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.model.model import Model
from dgl_treestack.resources import BUNDLED, find_data
from dgl_treestack.runs.folder import sha256
from dgl_treestack.runs.pretrained import is_pretrained, trust
from dgl_treestack.runs.run import Run

Answer = dict[str, Any]


def complete(
    question: str, run: Run, *, candidates: Path | None, top: int, precision: str, output: Path | None, as_json: bool
) -> None:
    """Fill the blank of one equation, or judge a run on a file of blanks: its records go into the run, and to `output`.

    Raises ConfigurationError, ExpressionError, DataError.
    """
    if top < 1:
        raise ConfigurationError(f"--top {top} shows nothing. Give a number from 1 on.")
    model = run.load_model(getattr(torch, precision))
    if question.startswith(BUNDLED) or question.endswith(formats.SUFFIXES):
        rows = make_records(model, find_data(question), candidates, quiet=False)
        if not is_pretrained(run):  # the package is not to be written to
            others = f"-{sha256(candidates)[:8]}" if candidates else ""
            run.write_records(question, rows, f"{COMPLETION}{others}")
        if output:
            records.write(output, rows)
        shares = list(table(rows))
        print(json.dumps(shares, indent=1) if as_json else _describe_table(shares))
        return
    equation = Equation.parse(question)
    answers = fill(model, equation, candidates, top)
    print(json.dumps(answers, indent=1) if as_json else _describe(equation, answers) + "\n" + trust(run, equation.depth))


def fill(model: Model, equation: Equation, candidates: Path | None = None, top: int = 10) -> list[Answer]:
    """The best candidates for the blank `_` of an equation: filler, score, probability, and the numeric verdict on each.

    Raises ExpressionError unless there is exactly one blank.
    """
    if len(equation.blanks) != 1:
        raise ExpressionError(f"{equation} has {len(equation.blanks)} blanks `_`; one is asked for, as in 'sin(x)**2 + _ = 1'.")
    (place,) = equation.blanks
    variables = sorted({text for _, kind, text in equation.leaves() if kind == "Symbol"})
    known = questions.read_candidates(candidates).expressions if candidates else choices(variables, model.vocabulary)
    (found,) = scores(model, [(equation.replace(place, known[0]), place)], known)
    order = sorted(range(len(known)), key=lambda i: -found[i])[:top]
    return [_answer(equation, place, known[i], float(found[i])) for i in order]


def _answer(equation: Equation, place: int, filler: Expression, score: float) -> Answer:
    probability = float(torch.sigmoid(torch.tensor(score)))
    verdict = truth.judge(equation.replace(place, filler)).verdict
    return {"filler": str(filler), "score": score, "probability": probability, "verdict": verdict}


def _describe(equation: Equation, answers: list[Answer]) -> str:
    width = max(len(answer["filler"]) for answer in answers)
    lines = [f"{equation}   (depth {equation.depth})", f"rank  {'filler':<{width}}  P(correct)  numeric check"]
    for number, answer in enumerate(answers, 1):
        lines.append(f"{number:>4}  {answer['filler']:<{width}}  {answer['probability']:>10.3f}  {answer['verdict']}")
    right = next((number for number, answer in enumerate(answers, 1) if answer["verdict"] == "holds"), None)
    lines.append(f"The first that holds is number {right}." if right else "None of these holds. Ask for more with --top.")
    return "\n".join(lines)


def _describe_table(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = [
        names,
        *([f"{row[name]:.1f}" if isinstance(row[name], float) else str(row[name]) for name in names] for row in rows),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
