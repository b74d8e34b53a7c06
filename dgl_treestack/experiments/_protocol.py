"""A protocol: rows of models, columns of measurements, and the paper's numbers to compare with."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.data.records import Record
from dgl_treestack.results import metrics
from dgl_treestack.results.run_result import RunResult

OURS = "docs/beyond.md"  # the source of experiments that are in none of the papers
Measure = Callable[[RunResult], float]
Paper = tuple[float, float | None]  # mean, standard deviation


@dataclass(frozen=True)
class Column:
    """A measurement of a run, in per cent unless the title says otherwise; NaN where a run has none."""

    title: str
    measure: Measure

    def of(self, run: RunResult) -> float:
        """Return the measurement of a run, the stored one if the run's records are not here."""
        return run.values[self.title] if self.title in run.values else self.measure(run)


@dataclass(frozen=True)
class Row:
    """A model of a table.

    config: a name in configs/models, or with its folder, such as beyond/tree_slots. paper: the paper's numbers by title of
    column; columns that it does not report are absent. changes: values replaced in the configuration, key -> value. seeds: how
    many of the protocol's seeds are enough, all by default.
    """

    label: str
    config: str
    paper: Mapping[str, Paper] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    seeds: int | None = None


@dataclass(frozen=True)
class Compared:
    """Records on which models are compared: depths from `low` to `high` of the test set, or of the extra `extra`.

    unit: what a record is of.
    """

    low: int
    high: int
    extra: str = ""
    unit: str = "equations"

    def of(self, run: RunResult) -> list[Record]:
        """Return a run's records of these equations."""
        return [row for row in (run.more[self.extra] if self.extra else run.test) if self.low <= row["depth"] <= self.high]

    @property
    def titles(self) -> tuple[str, str]:
        """The titles that a column of accuracies on these equations may have."""
        name = self.extra or f"test {self.low}-{self.high}"
        return name, f"{name} accuracy"

    @property
    def set(self) -> str:
        """The name of the set: that of the extra without its depths, or `test`."""
        return re.sub(r" \d+-\d+$", "", self.extra) or "test"


@dataclass(frozen=True)
class Protocol:
    """One experiment of the papers.

    source: paper and table. data: the name of a set of `Scale.other_data`, the scale's own by default. depths: (lowest,
    highest) of training and validation. extras: names in `_extras.EXTRAS` of the records that are needed besides those of the
    test set. figures: name -> labels of the rows that it shows, all when empty. compared: sets of equations on which models are
    tested for a difference, the primary one first. pairs: labels of rows whose difference is the question of the experiment,
    whether the first is better. seeds: how many of the scale's seeds are enough, all by default. unit: of the columns. note:
    what a reader has to know about the paper's numbers and ours. baselines: whether `experiments.baselines` are rows too.
    paper_majority: the paper's numbers for the majority class, by title of column.
    """

    title: str
    source: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    depths: tuple[int, int] = (1, 7)
    extras: Sequence[str] = ()
    figures: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"depth": ()})
    compared: Sequence[Compared] = (Compared(8, 13),)
    pairs: Sequence[tuple[str, str]] = ()
    seeds: int | None = None
    unit: str = "Per cent"
    note: str = ""
    baselines: bool = False
    paper_majority: Mapping[str, float] = field(default_factory=dict)
    data: str = ""

    def seeds_of(self, row: Row, seeds: Sequence[int]) -> Sequence[int]:
        """Return those of a scale's seeds with which a row is trained."""
        return seeds[: self.seeds][: row.seeds]


def at_best_epoch(name: str) -> Measure:
    """Measure a field of metrics.jsonl in the epoch whose weights were evaluated; NaN for what has no epochs."""
    return lambda run: float((run.best_row() or {name: math.nan})[name])


def validated(metric: str) -> Measure:
    """Measure a metric of `metrics.METRICS` on validation equations of the training depths."""
    return lambda run: metrics.METRICS[metric](run.validation)


def tested(low: int, high: int, metric: str = "accuracy", *, extra: str = "") -> Measure:
    """Measure a metric of `metrics.METRICS` on test equations of some depths, or on those of an extra; NaN without any."""
    equations = Compared(low, high, extra)
    return lambda run: metrics.METRICS[metric](equations.of(run))


def filled(kind: str, limit: int, blanks: str = "blanks", *, low: int = 0) -> Measure:
    """Measure the per cent of blanks whose rank of a kind (`completion.ranking`) is at most `limit`; NaN without any.

    blanks: the extra. low: smallest depth of the blanked expression.
    """
    return lambda run: metrics.within([row for row in run.more[blanks] if row["blank_depth"] >= low], kind, limit)


def guessed(name: str, extra: str = "blanks") -> Measure:
    """Measure the per cent of blanks that are filled without a model; NaN without any.

    name: the field, see `completion.records`. extra: the blanks, of `_extras.EXTRAS`.
    """

    def measure(run: RunResult) -> float:
        blanks = run.more[extra]
        return 100 * sum(row.get(name, math.nan) for row in blanks) / len(blanks) if blanks else math.nan

    return measure


def epochs_to(points: float) -> Measure:
    """Measure the first epoch whose validation accuracy is at most some points below the best; NaN for what has no epochs."""

    def measure(run: RunResult) -> float:
        accuracies = [row["validation_accuracy"] for row in run.rows]
        near = (row["epoch"] for row in run.rows if row["validation_accuracy"] >= max(accuracies) - points)
        return float(next(near, math.nan))

    return measure


def clustered(name: str, factor: float = 1.0, extra: str = "expressions") -> Measure:
    """Measure a field of `metrics.Clusters` for the representations of expressions in an extra, times a factor."""
    return lambda run: factor * getattr(metrics.clusters(run.more[extra]), name)


def used(depth: int, name: str) -> Measure:
    """Measure the rows of the stack in use in equations of a depth; NaN without any. name: see `inspection.usage`."""

    def measure(run: RunResult) -> float:
        rows = [row.get(name, math.nan) for row in run.more["usage"] if row["depth"] == depth]
        return sum(rows) / len(rows) if rows else float("nan")

    return measure


def with_less(name: str, low: int, high: int) -> Measure:
    """Measure the accuracy at some depths with rows or an action of the stack taken away, see `inspection.ablation`.

    name: the field; NaN for a model without it.
    """

    def measure(run: RunResult) -> float:
        answers = [row[name] for row in run.more["less stack"] if low <= row["depth"] <= high and name in row]
        return 100 * sum(answers) / len(answers) if answers else float("nan")

    return measure


def lost(name: str, low: int, high: int) -> Measure:
    """Measure the points of accuracy that a model loses at some depths when rows or an action are taken away.

    name: the field, see `with_less`. The stack's size is among the settings of the run.
    """

    def measure(run: RunResult) -> float:
        rows = run.config.model.settings["stack_size"]
        return with_less(f"rows {rows}", low, high)(run) - with_less(name, low, high)(run)

    return measure


def read_out(height: int, field: int) -> Measure:
    """Measure a field of `metrics.readouts_by_height` for the subtrees of a height, times 100; NaN with too few of them."""

    def measure(run: RunResult) -> float:
        return 100 * metrics.readouts_by_height(run.more["values"]).get(height, (float("nan"),) * 2)[field]

    return measure


train = at_best_epoch("train_accuracy")  # measured during the epoch, with dropout
best_epoch = at_best_epoch("epoch")
validation = validated("accuracy")
BY_DEPTH = (  # columns of experiments without numbers of a paper, and what they compare
    Column("validation", validation),
    Column("test 1-7", tested(1, 7)),
    Column("test 8-13", tested(8, 13)),
    Column("deep 8-19", tested(8, 19, extra="deep 8-19")),
)
BEYOND = (Compared(8, 19, "deep 8-19"), Compared(8, 13))
