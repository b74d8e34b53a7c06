"""A protocol: rows of models, columns of measurements, and the paper's numbers to compare with."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.data.records import Table
from dgl_treestack.results.metrics import METRICS, Metric, at_best_epoch
from dgl_treestack.results.run_result import EPOCHS, RunResult

OURS = "docs/beyond.md"  # the source of experiments that are in none of the papers
Paper = tuple[float, float | None]  # mean, standard deviation
Depths = tuple[int, int]  # lowest, highest


@dataclass(frozen=True)
class Column:
    """A measurement of a run: a metric, or the name of one of `METRICS`, over a set of its answers, see `RunResult.of`.

    In per cent unless the title says otherwise; NaN where a run has none.
    """

    title: str
    metric: Metric | str = "accuracy"
    set: str = "test"
    depths: Depths | None = None

    def of(self, run: RunResult) -> float:
        """Return the measurement of a run, the stored one if the run's records are not here."""
        stored = run.about.get("values", {})
        if self.title in stored:
            return float(stored[self.title])
        metric = METRICS[self.metric] if isinstance(self.metric, str) else self.metric
        return metric(run.of(self.set, self.depths))


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
    """Answers on which models are compared: those of some depths of a set. unit: what a row is of."""

    low: int
    high: int
    extra: str = ""
    unit: str = "equations"

    def of(self, run: RunResult) -> Table:
        """Return a run's answers to these equations."""
        return run.of(self.extra or "test", (self.low, self.high))

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
    highest) of training and validation. extras: names in `extras.extras` of the records that are needed besides those of the
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


TRAIN = Column("train", at_best_epoch("train_accuracy"), EPOCHS)  # measured during the epoch, with dropout
BEST_EPOCH = Column("best epoch", at_best_epoch("epoch"), EPOCHS)
VALIDATION = Column("validation", set="validation")
BY_DEPTH = (  # columns of experiments without numbers of a paper, and what they compare
    VALIDATION,
    Column("test 1-7", depths=(1, 7)),
    Column("test 8-13", depths=(8, 13)),
    Column("deep 8-19", set="deep 8-19", depths=(8, 19)),
)
BEYOND = (Compared(8, 19, "deep 8-19"), Compared(8, 13))


def by_metric(title: str, metrics: Sequence[str], name_of_set: str = "test", depths: Depths | None = None) -> list[Column]:
    """Return a column for each of several metrics over the same answers, titled `<title> <metric>`."""
    return [Column(f"{title} {metric}", metric, name_of_set, depths) for metric in metrics]
