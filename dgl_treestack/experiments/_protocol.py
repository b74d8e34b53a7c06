"""A protocol: rows of models, columns of measurements, and the paper's numbers to compare with.

Each is a file of the folder `protocols`; a new file is a new protocol. `differs.toml` has what differs from the papers in a
row, by configuration.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dgl_treestack.results import metrics
from dgl_treestack.results.run_result import EPOCHS, RunResult

FOLDER = Path(__file__).parent
Paper = tuple[float, float | None]  # mean, standard deviation
Depths = tuple[int, int]  # lowest, highest
Results = dict[str, list[RunResult]]  # label of a row -> its runs, one per seed


@dataclass(frozen=True)
class Column:
    """A measurement of a run: a metric, see `metrics.measure`, over a set of its answers, see `RunResult.of`.

    In per cent unless the title says otherwise; NaN where a run has none.
    """

    title: str
    metric: str | Sequence[Any] = "accuracy"
    set: str = "test"
    depths: Depths | None = None

    def of(self, run: RunResult) -> float:
        """Return the measurement of a run, the stored one if the run's records are not here."""
        stored = run.about.get("values", {})
        if self.title in stored:
            return float(stored[self.title])
        return metrics.measure(run.of(self.set, self.depths), self.metric)


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

    depths: Depths
    set: str = "test"
    unit: str = "equations"

    @property
    def printed(self) -> tuple[str, str]:
        """The name of the set, that of an extra without its depths, and the depths, as a table prints them."""
        return re.sub(r" \d+-\d+$", "", self.set), "{}-{}".format(*self.depths)


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
    compared: Sequence[Compared] = (Compared((8, 13)),)
    # Chosen before there are results: pairs that were added afterwards would test what is known already.
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


TRAIN = Column("train", ["at_best_epoch", "train_accuracy"], EPOCHS)  # measured during the epoch, with dropout


@cache
def protocols() -> dict[str, Protocol]:
    """Return the protocols by name."""
    return {path.stem: _protocol(read_data(f"protocols/{path.name}")) for path in sorted(FOLDER.glob("protocols/*.toml"))}


def read_data(name: str) -> dict[str, Any]:
    """Return the tables of a TOML file of this folder."""
    return tomllib.loads((FOLDER / name).read_text())


def _protocol(tables: dict[str, Any]) -> Protocol:
    """Return a protocol from its file.

    printed: the columns of the numbers in lists `paper`. A number is [mean, standard deviation] or the mean alone.
    """
    printed, rows = tables.pop("printed", ()), []
    for entry in tables["rows"]:
        paper = entry.pop("paper", {})
        numbers = paper if isinstance(paper, dict) else dict(zip(printed, paper, strict=False))
        pairs = {title: tuple(number) if isinstance(number, list) else (number, None) for title, number in numbers.items()}
        rows.append(Row(**entry, paper=pairs))
    tables["rows"] = rows
    tables["columns"] = [column for entry in tables["columns"] for column in _columns(entry)]
    if "compared" in tables:
        tables["compared"] = [Compared(tuple(entry.pop("depths")), **entry) for entry in tables["compared"]]
    tables["pairs"] = [tuple(pair) for pair in tables.get("pairs", ())]
    return Protocol(**tables)


def _columns(entry: dict[str, Any]) -> list[Column]:
    """Return the column of an entry, or one for each of its `metrics`, titled `<title> <metric>`."""
    metrics_of_entry = entry.pop("metrics", ())
    if not metrics_of_entry:
        return [Column(**entry)]
    title = entry.pop("title")
    return [Column(f"{title} {name}", name, **entry) for name in metrics_of_entry]
