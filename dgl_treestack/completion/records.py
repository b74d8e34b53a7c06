"""Records of completion, a row per blank, and the shares of blanks within a rank."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from dgl_treestack.completion import questions
from dgl_treestack.completion.questions import Group
from dgl_treestack.completion.scoring import rank, scores
from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.model.model import Model
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs import pretrained
from dgl_treestack.runs.evaluation import pack, unpack
from dgl_treestack.runs.run import Run

KINDS = ("raw", "class", "collapse")
PART = 64  # blanks that are scored together
COMPLETION = "completion"  # the kind of these records in a run

Packed = tuple[bytes, torch.dtype]  # a run as `evaluation.pack` writes it, for other processes, and the type of its numbers


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
    table = fill(run.load_model(dtype) if jobs == 1 else (pack(run), dtype), groups, quiet=quiet, jobs=jobs)
    if not pretrained.is_packaged(run):
        suffix = f"-{sha256(candidates)[:8]}" if candidates else ""
        run.write_records(data, table, f"{COMPLETION}{suffix}")
    return table


def fill(
    model: Model | Packed, groups: Sequence[Group], *, engine: str = "levels", quiet: bool = True, jobs: Jobs = 1
) -> Table:
    """Return a row per blank of groups that `questions.read` has read, in file order. With several jobs, the run is packed."""
    # Scores depend in their last digits on the blanks of a part, not on who computes it.
    parts = [
        replace(group, questions=group.questions[start : start + PART])
        for group in groups
        for start in range(0, len(group.questions), PART)
    ]
    with nullcontext() if jobs == 1 else workers(jobs) as pool:
        if pool is None:
            tables = (_fill_part(model, part, engine) for part in parts)
        else:
            tasks = [pool.submit(_fill_part, model, part, engine) for part in parts]
            tables = (task.result() for task in tasks)
        bar = tqdm(tables, desc=f"blanks, {PART} at a time", total=len(parts), disable=quiet or None, leave=False)
        return records.joined(bar).sort("index").drop("index")


def _fill_part(model: Model | Packed, part: Group, engine: str) -> Table:
    """Return a row per blank of a part.

    `index`: of the blank in its file. `correct`: whether the best candidate is right. `blank_depth`: of the truth. Without a
    model: `chance`, the share of candidates that are right, and `constant`, whether the value class that fills most blanks of
    these candidates fills it.
    """
    if isinstance(model, tuple):
        torch.set_num_threads(1)  # processes share the machine
        model = unpack(*model)[0]
    rows = []
    scores_of_blanks = scores(model, [question.blank for question in part.questions], part.candidates, engine=engine)
    for question, of_blank in zip(part.questions, scores_of_blanks, strict=True):
        ranks = rank(of_blank, part.classes, question.truth, question.right, question.doubtful)
        blanked = part.candidates[question.truth]
        row = {
            "label": None,
            "score": float(of_blank[question.truth]),
            "correct": ranks["class"] == 1,
            "task": "completion",
            "blank_depth": blanked.depth,
            "candidates": len(of_blank),
            "chance": ranks["chance"],
            "constant": int(part.frequent in question.right),
            **{kind: ranks[kind] for kind in KINDS},
            "answer": str(blanked),
            "best": str(part.candidates[ranks["best"]]),
            "index": question.index,
        }
        rows.append(row)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return records.of_examples([question.example for question in part.questions], columns)


def shares(blanks: Table) -> Iterator[dict[str, Any]]:
    """Yield a row per depth of the equation, and one for all: blanks, top-1 and top-5 of every kind of rank, in per cent."""
    for depth, group in [*records.by(blanks).items(), ("all", blanks)]:
        of_kinds = {f"{kind} top-{limit}": records.share(group[kind] <= limit) for kind in KINDS for limit in (1, 5)}
        yield {"depth": depth, "blanks": len(group), **of_kinds}
