"""What a protocol is: rows of models, columns of measurements, and the paper's numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.results import metrics
from dgl_treestack.results.run_result import RunResult

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
class Compared:
    """Equations on which models are compared: of the test set or of an extra, depths from `low` to `high`."""

    low: int
    high: int
    extra: str = ""

    def of(self, run: RunResult) -> list[Record]:
        """A run's records of them."""
        return [row for row in (run.more[self.extra] if self.extra else run.test) if self.low <= row["depth"] <= self.high]


@dataclass(frozen=True)
class Protocol:
    """One experiment of the papers. source: paper and table. note: what is to be known of their numbers and ours. depths: of
    training and validation, (from, to).

    extras: names out of `_extras.EXTRAS`, records that are needed beside those of the test set. figures: names of figures,
    and drawn: labels of the rows in them, all when empty. unit: of the columns.
    """

    title: str
    source: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    depths: tuple[int, int] = (1, 7)
    extras: Sequence[str] = ()
    figures: Sequence[str] = ("depth",)
    drawn: Sequence[str] = ()
    compared: Sequence[Compared] = (Compared(8, 13),)
    unit: str = "Per cent"
    note: str = ""


def train(run: RunResult) -> float:
    """Training accuracy of the chosen epoch, while it was trained."""
    return max(run.rows, key=lambda row: row["validation_accuracy"])["train_accuracy"]


def validation(run: RunResult) -> float:
    return records.accuracy(run.validation)


def validated(metric: str) -> Measure:
    """A metric of `metrics.METRICS` on validation equations of the training depths."""
    return lambda run: metrics.METRICS[metric](run.validation)


def best_epoch(run: RunResult) -> float:
    return max(run.rows, key=lambda row: row["validation_accuracy"])["epoch"]


def filled(kind: str, most: int, blanks: str = "blanks") -> Measure:
    """Per cent of blanks whose rank of a kind (`completion.ranking`) is at most so much. blanks: the extra."""
    return lambda run: metrics.within(run.more[blanks], kind, most)


def tested(low: int, high: int, metric: str = "accuracy", *, extra: str = "") -> Measure:
    """A metric of `metrics.METRICS` on test equations of some depths, or those of an extra; NaN where there are none."""

    def measure(run: RunResult) -> float:
        return metrics.METRICS[metric](Compared(low, high, extra).of(run))

    return measure


def clustered(what: str, factor: float = 1.0) -> Measure:
    """A field of `metrics.Clusters` for the representations of expressions, times a factor."""
    return lambda run: factor * getattr(metrics.clusters(run.more["expressions"]), what)


def used(depth: int, where: str) -> Measure:
    """Rows of the stack in use (`usage`) in equations of a depth; NaN where there are none. where: `usage` or `top`."""

    def measure(run: RunResult) -> float:
        rows = [row[where] for row in run.more["usage"] if row["depth"] == depth]
        return sum(rows) / len(rows) if rows else float("nan")

    return measure
