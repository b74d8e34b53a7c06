"""Records of completion, a row per blank, and the shares of blanks within a rank."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from dgl_treestack.completion import questions
from dgl_treestack.completion.questions import Candidates, Question
from dgl_treestack.completion.scoring import rank, scores
from dgl_treestack.data import records
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Table
from dgl_treestack.model.model import Model
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs import pretrained
from dgl_treestack.runs.evaluation import pack, unpack
from dgl_treestack.runs.run import Run

Group = tuple[Candidates, list[Question]]
Row = tuple[int, Example, dict[str, Any]]  # of a blank: its index, its example, its columns
KINDS = ("raw", "class", "collapse")
PART = 64  # blanks that are scored together
COMPLETION = "completion"  # the kind of these records in a run


@dataclass(frozen=True)
class Part:
    """Blanks that have the same candidates. frequent: the value class that fills most of all blanks of these candidates."""

    candidates: Candidates
    questions: Sequence[Question]
    frequent: str


def evaluate(
    run: Run,
    data: str,
    candidates: Path | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    quiet: bool = True,
    jobs: Jobs = 1,
) -> Table:
    """Evaluate the best weights of a run on a file of blanks; return a row per blank, in file order.

    The records are also written into the run, unless it is the pretrained one of the package. jobs: processes, or a cluster,
    that share the blanks out. Raises DataError.
    """
    groups = questions.read(find_data(data), candidates)
    if jobs == 1:
        table = fill(run.load_model(dtype), groups, quiet=quiet)
    else:
        content = pack(run)
        with workers(jobs) as pool:
            tasks = [pool.submit(_fill_packed, content, part, dtype) for part in _parts(groups)]
            bar = tqdm(tasks, desc="blanks", unit="part", disable=quiet or None, leave=False)
            table = _in_order(chain.from_iterable(task.result() for task in bar))
    if not pretrained.is_packaged(run):
        suffix = f"-{sha256(candidates)[:8]}" if candidates else ""
        run.write_records(data, table, f"{COMPLETION}{suffix}")
    return table


def fill(model: Model, groups: Sequence[Group], *, engine: str = "levels", quiet: bool = True) -> Table:
    """Return a row per blank of groups that `questions.read` has read, in file order."""
    total = sum(len(group) for _, group in groups)
    rows = chain.from_iterable(_fill_part(model, part, engine) for part in _parts(groups))
    return _in_order(tqdm(rows, total=total, desc="blanks", disable=quiet or None, leave=False))


def _parts(groups: Sequence[Group]) -> Iterator[Part]:
    """Yield the groups in parts; scores depend in their last digits on the blanks of a part, not on who computes it."""
    for candidates, group in groups:
        ((frequent, _),) = Counter(name for question in group for name in sorted(question.right)).most_common(1)
        for start in range(0, len(group), PART):
            yield Part(candidates, group[start : start + PART], frequent)


def _fill_packed(content: bytes, part: Part, dtype: torch.dtype) -> list[Row]:
    """Return the rows of a part, from the model of a packed run."""
    torch.set_num_threads(1)
    return list(_fill_part(unpack(content, dtype)[0], part, "levels"))


def _fill_part(model: Model, part: Part, engine: str) -> Iterator[Row]:
    """Yield the index, the example and the columns of every blank of a part."""
    blanks = [question.blank for question in part.questions]
    rows = scores(model, blanks, part.candidates.expressions, engine=engine)
    for question, row in zip(part.questions, rows, strict=True):
        yield question.index, question.example, _columns(question, part.candidates, row, part.frequent)


def _in_order(rows: Iterable[Row]) -> Table:
    """Return the table of rows in the order of their indices."""
    _, examples, columns = zip(*sorted(rows, key=itemgetter(0)), strict=True)
    return records.of_examples(examples, {name: [row[name] for row in columns] for name in columns[0]})


def _columns(question: Question, candidates: Candidates, candidate_scores: np.ndarray, frequent: str) -> dict[str, Any]:
    """Return the columns of a blank.

    `correct`: whether the best candidate is right. `blank_depth`: of the truth. Without a model: `chance`, the share of
    candidates that are right, and `constant`, whether `frequent` fills it, the value class that fills most blanks of
    these candidates.
    """
    ranks = rank(candidate_scores, candidates.classes, question.truth, question.right, question.doubtful)
    blanked = candidates.expressions[question.truth]
    return {
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


def shares(blanks: Table) -> Iterator[dict[str, Any]]:
    """Yield a row per depth of the equation, and one for all: blanks, top-1 and top-5 of every kind of rank, in per cent."""
    for depth, group in [*records.by(blanks).items(), ("all", blanks)]:
        of_kinds = {f"{kind} top-{limit}": records.share(group[kind] <= limit) for kind in KINDS for limit in (1, 5)}
        yield {"depth": depth, "blanks": len(group), **of_kinds}
