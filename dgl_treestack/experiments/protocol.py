"""A protocol: rows of models, columns of measurements, and the paper's numbers to compare with. A scale: with which data.

Each protocol is a file of the folder `protocols`; a new file is a new protocol. `differs.toml` has what differs from the papers
in a row, by configuration, `scales.toml` the scales.
"""

import itertools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dgl_treestack.errors import DataError
from dgl_treestack.generate.presets import text
from dgl_treestack.resources import find_data
from dgl_treestack.results.metrics import MEASURES
from dgl_treestack.results.run_result import EPOCHS, RunResult
from dgl_treestack.runs.sequence_configuration import StreamTests

FOLDER = Path(__file__).parent
AUTHORS = "authors-40k"  # the name of the set of the authors' own files, and of its folder in `data`
Paper = tuple[float, float | None]  # mean, standard deviation
Depths = tuple[int, int]  # lowest, highest
Results = dict[str, list[RunResult]]  # label of a row -> its runs, one per seed


@dataclass(frozen=True)
class Column:
    """A measurement of a run: one of `metrics.MEASURES`, perhaps with arguments, over a set of its answers (`RunResult.of`).

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
        name, *arguments = [self.metric] if isinstance(self.metric, str) else list(self.metric)
        return MEASURES[name](run.of(self.set, self.depths), *arguments)


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
    what a reader has to know about the paper's numbers and ours. baselines: whether rows without a network are there, too.
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


TRAIN = Column("train", ["at_best_epoch", "train_accuracy"], EPOCHS)  # measured during the epoch, with dropout


@cache
def protocols() -> dict[str, Protocol]:
    """Return the protocols by name.

    In a file, `printed` has the columns of the numbers in lists `paper`, a number is [mean, standard deviation] or the mean
    alone, and a column with `metrics` is one for each of them, titled `<title> <metric>`. A row with a `grid`, key -> values,
    is one for every combination, labelled `<label>, <value>, ...`; then come its `points`, lists of a value for each key.
    """
    protocol_of = {}
    for path in sorted(FOLDER.glob("protocols/*.toml")):
        tables = read_data(f"protocols/{path.name}")
        printed, rows, columns = tables.pop("printed", ()), [], []
        for entry in tables["rows"]:
            paper = entry.pop("paper", {})
            numbers = paper if isinstance(paper, dict) else dict(zip(printed, paper, strict=False))
            pairs = {title: tuple(number) if isinstance(number, list) else (number, None) for title, number in numbers.items()}
            grid, label, changes = entry.pop("grid", {}), entry.pop("label"), entry.pop("changes", {})
            for values in itertools.chain(itertools.product(*grid.values()), entry.pop("points", ())):
                label_of_point = ", ".join([label, *map(str, values)])
                changes_of_point = changes | dict(zip(grid, values, strict=True))
                rows.append(Row(label_of_point, **entry, changes=changes_of_point, paper=pairs))
        for entry in tables["columns"]:
            if names := entry.pop("metrics", ()):
                columns += [Column(**entry | {"title": f"{entry['title']} {name}", "metric": name}) for name in names]
            else:
                columns.append(Column(**entry))
        if "compared" in tables:
            tables["compared"] = [Compared(tuple(entry.pop("depths")), **entry) for entry in tables["compared"]]
        pairs_of_rows = [tuple(pair) for pair in tables.get("pairs", ())]
        protocol_of[path.stem] = Protocol(**tables | {"rows": rows, "columns": columns, "pairs": pairs_of_rows})
    return protocol_of


def read_data(name: str) -> dict[str, Any]:
    """Return the tables of a TOML file of this folder."""
    return tomllib.loads((FOLDER / name).read_text())


@dataclass(frozen=True)
class Scale:
    """The scale of an experiment.

    data: files by kind (train, validation, test). other_data: those of further sets, by the names that protocols use. extras:
    further files that extras are made of, by name. changes: values replaced in every configuration. own: values replaced in
    single configurations, by their names, after `changes` and before those of a row. left_out: protocols that `all` does not
    mean at this scale. only: those that it means, all others by default. differs: what differs from the papers in all rows.
    """

    summary: str
    data: Mapping[str, str]
    extras: Mapping[str, str]
    seeds: Sequence[int]
    changes: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    only: Sequence[str] = ()
    other_data: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    differs: str = ""
    unit: str = "equations"

    def file(self, name: str) -> str:
        """Return the file of an extra: of a kind of `data`, or in `extras`."""
        return {**self.data, **self.extras}[name]

    def files(self, name: str) -> Mapping[str, str]:
        """Return the files by kind of the set of a name, '' for `data`; those of the authors are the same at every scale."""
        return {AUTHORS: authors_files(Path("data", AUTHORS)), **self.other_data}[name] if name else self.data


@dataclass(frozen=True)
class Extent:
    """What the experiments without equations have at a scale.

    Algorithmic tasks: `restarts`, the number of nets, `share`, the fraction of a recipe's updates that are made, and `tests`.
    Language models: `sentences` of the text, the number of `seeds`, and `changes`, values replaced in all configurations.
    Transductions: the number of `seeds`, and `transductions`, values replaced in all configurations.
    """

    restarts: int = 10
    share: float = 1.0
    tests: StreamTests = field(default_factory=StreamTests)
    sentences: int = text.SENTENCES
    seeds: int = 3
    # With 32 streams an LSTM was at a validation perplexity of 109 after three epochs, with 8 at 60 (the 5-gram: 121).
    changes: Mapping[str, Any] = field(default_factory=lambda: {"streams": 8})
    transductions: Mapping[str, Any] = field(default_factory=dict)


def authors_files(folder: Path) -> dict[str, str]:
    """Return the files by kind in a folder with the authors' 40,000 equations."""
    names = {"train": "40k_train.json", "validation": "40k_val_shallow.json", "test": "40k_test.json"}
    return {kind: str(folder / name) for kind, name in names.items()}


SHORT = {"streams": 8, "epochs": 1, "hidden": 48, "window": 20}
FEW_STEPS = {"epochs": 1, "steps": 2, "batch": 4, "settings.hidden": 16, "tested": 60, "sequences": 2}
EXTENTS = {
    "smoke": Extent(2, 0.004, StreamTests(largest=6, far=(9,), repeats=1, streamed=1), 300, 1, SHORT, FEW_STEPS),
    "day": Extent(),
    "paper": Extent(tests=StreamTests(repeats=200, streamed=200), transductions={"every": 1}),
}
SCALES = {name: Scale(**entries) for name, entries in read_data("scales.toml").items()}


def check_data(scale: Scale, extras: Iterable[str] = (), sets: Iterable[str] = ("",)) -> None:
    """Raise DataError when a file of a scale does not exist. extras, sets: names of files that are needed."""
    files = [file for name in sets for file in scale.files(name).values()]
    for name in (*files, *map(scale.file, extras)):
        path = find_data(name)
        if not path.is_file():
            if name in scale.files(AUTHORS).values():
                raise DataError("It does not exist. Get `data` of ForoughA/recursiveMemNet; give its folder with --data.", path)
            # the folders of two sizes of one preset, where all others have the name of their preset
            size = {"paper-130k": 130_000, "paper-1m": 1_000_000}.get(path.parent.name)
            preset = f"paper --train-size {size}" if size else path.parent.name
            command = f"treestack generate {preset} --output-dir {path.parent}"
            raise DataError(f"It does not exist. Generate it with `{command}`, or use --scale smoke.", path)
