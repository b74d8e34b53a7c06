"""What a protocol is: rows of models, columns of measurements, and the paper's numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack import records
from dgl_treestack.metrics import within
from dgl_treestack.results import RunResult

Measure = Callable[[RunResult], float]
Paper = tuple[float, float | None]  # mean, standard deviation


@dataclass(frozen=True)
class Column:
    """A measurement of a run, in per cent or whatever the title says; NaN where a run has none."""

    title: str
    measure: Measure


@dataclass(frozen=True)
class Row:
    """A model of a table. config: a name in configs/models. changes: what is replaced in it, key -> value.

    paper: the paper's number by column, as far as it has one.
    """

    label: str
    config: str
    paper: Mapping[str, Paper] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Protocol:
    """One experiment of the papers. source: paper and table. depths: of training and validation, (from, to).

    figure: labels of the rows that are drawn by depth, all when empty. deep: whether the deeper test set is needed. blanks:
    whether this is about completion, and blanks are to be filled.
    """

    title: str
    source: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    depths: tuple[int, int] = (1, 7)
    figure: Sequence[str] = ()
    deep: bool = False
    blanks: bool = False


def train(run: RunResult) -> float:
    """Training accuracy of the chosen epoch, while it was trained."""
    return max(run.rows, key=lambda row: row["validation_accuracy"])["train_accuracy"]


def validation(run: RunResult) -> float:
    return records.accuracy(run.validation)


def best_epoch(run: RunResult) -> float:
    return max(run.rows, key=lambda row: row["validation_accuracy"])["epoch"]


def filled(kind: str, most: int) -> Measure:
    """Per cent of blanks whose rank of a kind (`completion.ranking`) is at most so much."""
    return lambda run: within(run.blanks, kind, most)


def tested(low: int, high: int, metric: str = "accuracy", *, deep: bool = False) -> Measure:
    """A metric of `records.classification` on test equations of some depths; NaN where there are none.

    deep: on the deeper test set, whose records say so under `data`.
    """

    def measure(run: RunResult) -> float:
        rows = [row for row in run.test if low <= row["depth"] <= high and ("data" in row) == deep]
        return records.classification(rows).get(metric, float("nan"))

    return measure
