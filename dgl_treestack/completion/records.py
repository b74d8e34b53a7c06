"""Records of completion, one per blank, and the shares of blanks within a rank."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from dgl_treestack.completion import questions
from dgl_treestack.completion.questions import Candidates, Question
from dgl_treestack.completion.ranking import rank
from dgl_treestack.completion.scoring import scores
from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.results.metrics import within
from dgl_treestack.runs import pretrained
from dgl_treestack.runs.run import Run

Group = tuple[Candidates, list[Question]]
KINDS = ("raw", "class", "collapse")
COMPLETION = "completion"  # the kind of these records in a run


def evaluate(
    run: Run, data: str, candidates: Path | None = None, *, dtype: torch.dtype = torch.float32, quiet: bool = True
) -> list[Record]:
    """Evaluate the best weights of a run on a file of blanks; return a record per blank, in file order.

    The records are also written into the run, unless it is the pretrained one of the package. Raises DataError.
    """
    rows = fill(run.load_model(dtype), questions.read(find_data(data), candidates), quiet=quiet)
    if not pretrained.is_packaged(run):
        suffix = f"-{sha256(candidates)[:8]}" if candidates else ""
        run.write_records(data, rows, f"{COMPLETION}{suffix}")
    return rows


def fill(model: Model, groups: Sequence[Group], *, engine: str = "levels", quiet: bool = True) -> list[Record]:
    """Return a record per blank of groups that `questions.read` has read, in file order."""
    record_by_index: dict[int, Record] = {}
    total = sum(len(group) for _, group in groups)
    with tqdm(total=total, desc="blanks", disable=quiet or None, leave=False) as bar:
        for candidates, group in groups:
            blanks = [question.blank for question in group]
            rows = scores(model, blanks, candidates.expressions, engine=engine)
            ((frequent, _),) = Counter(name for question in group for name in sorted(question.right)).most_common(1)
            for question, row in zip(group, rows, strict=True):
                record_by_index[question.index] = _record(question, candidates, row, frequent)
                bar.update()
    return [record_by_index[index] for index in sorted(record_by_index)]


def _record(question: Question, candidates: Candidates, candidate_scores: np.ndarray, frequent: str) -> Record:
    """Return the record of a blank.

    `correct`: whether the best candidate is right. `blank_depth`: of the truth. Without a model: `chance`, the share of
    candidates that are right, and `constant`, whether `frequent` fills it, the value class that fills most blanks of
    these candidates.
    """
    ranks = rank(candidate_scores, candidates.classes, question.truth, question.right, question.doubtful)
    blanked = candidates.expressions[question.truth]
    columns: dict[str, Any] = {
        "label": None,
        "score": float(candidate_scores[question.truth]),
        "correct": ranks.class_ == 1,
        "task": "completion",
        "blank_depth": blanked.depth,
        "candidates": len(candidate_scores),
        "chance": ranks.chance,
        "constant": int(frequent in question.right),
        "raw": ranks.raw,
        "class": ranks.class_,
        "collapse": ranks.collapse,
        "answer": str(blanked),
        "best": str(candidates.expressions[ranks.best]),
    }
    return records.of_example(question.example, **columns)


def table(rows: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """Yield a row per depth of the equation, and one for all: blanks, top-1 and top-5 of every kind of rank, in per cent."""
    for depth, group in [*records.grouped(rows).items(), ("all", list(rows))]:
        shares = {f"{kind} top-{limit}": within(group, kind, limit) for kind in KINDS for limit in (1, 5)}
        yield {"depth": depth, "blanks": len(group), **shares}
