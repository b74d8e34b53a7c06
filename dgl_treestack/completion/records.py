"""Records of completion, one per blank, and the shares of blanks within a rank."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from dgl_treestack.completion import questions
from dgl_treestack.completion.ranking import rank
from dgl_treestack.completion.scoring import scores
from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.results.metrics import within
from dgl_treestack.runs.pretrained import is_pretrained
from dgl_treestack.runs.run import Run

Group = tuple[questions.Candidates, list[questions.Question]]
KINDS = ("raw", "class", "collapse")
COMPLETION = "completion"  # what its records are filed under in a run


def evaluate(
    run: Run, data: str, candidates: Path | None = None, *, dtype: torch.dtype = torch.float32, quiet: bool = True
) -> list[Record]:
    """A record per blank of a file by a run's best weights, in file order; they also go into the run. Raises DataError."""
    rows = make_records(run.load_model(dtype), find_data(data), candidates, quiet=quiet)
    if not is_pretrained(run):  # the package is not to be written to
        others = f"-{sha256(candidates)[:8]}" if candidates else ""
        run.write_records(data, rows, f"{COMPLETION}{others}")
    return rows


def make_records(
    model: Model, blanks: Path, candidates: Path | None = None, *, engine: str = "levels", quiet: bool = True
) -> list[Record]:
    """A record per blank of a file, in file order. Raises DataError."""
    return fill(model, questions.read(blanks, candidates), engine=engine, quiet=quiet)


def fill(model: Model, groups: Sequence[Group], *, engine: str = "levels", quiet: bool = True) -> list[Record]:
    """A record per blank of groups that `questions.read` has read, by their places in the file."""
    found: dict[int, Record] = {}
    with tqdm(total=sum(len(asked) for _, asked in groups), desc="blanks", disable=quiet or None, leave=False) as bar:
        for known, asked in groups:
            every = scores(model, [question.blank for question in asked], known.expressions, engine=engine)
            for question, found_scores in zip(asked, every, strict=True):
                found[question.place] = _record(question, known, found_scores)
                bar.update()
    return [found[place] for place in sorted(found)]


def _record(question: questions.Question, known: questions.Candidates, found: Any) -> Record:
    """`correct`: whether the best candidate is right. `blank_depth`: of what was blanked."""
    ranks = rank(found, known.classes, question.truth, question.right, question.doubtful)
    blanked = known.expressions[question.truth]
    own = {
        "label": None,
        "score": float(found[question.truth]),
        "correct": ranks.class_ == 1,
        "task": "completion",
        "blank_depth": blanked.depth,
        "candidates": len(found),
        "raw": ranks.raw,
        "class": ranks.class_,
        "collapse": ranks.collapse,
        "answer": str(blanked),
        "best": str(known.expressions[ranks.best]),
    }
    return records.of_example(question.example, **own)


def table(rows: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """A row per depth of the equation, and one for all: blanks, top-1 and top-5 of every kind of rank, in per cent."""
    for depth, group in [*records.by_depth(rows).items(), ("all", list(rows))]:
        shares = {f"{kind} top-{most}": within(group, kind, most) for kind in KINDS for most in (1, 5)}
        yield {"depth": depth, "blanks": len(group), **shares}
