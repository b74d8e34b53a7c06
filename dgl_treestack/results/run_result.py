"""Finished runs, as input of figures and tables: configuration, metrics per epoch, and one table of answers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import polars as pl

from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.errors import DataError
from dgl_treestack.plain_data import read_json
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.environment import machine_of, range_of
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import opened

EPOCHS = "epochs"  # the set of the metrics per epoch
OWN = ("validation", "test")  # the sets of every run


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    config: of a run on trees, which most figures and tables need; `read_any` and `archive.read` have others, too.

    rows: metrics, one row per epoch. answers: the table of records of all sets, with the column `set`: `validation` for
    those of the training depths, by which the best epoch was selected; `test`; further sets of an experiment, such as `blanks`.

    about: what else is known, as plain data. `equations` of training; `measured`, smallest and largest value in the training
    set of the measure that the configuration groups by, unless it is the depth of whole trees; `best_epoch`, which was
    evaluated; `classes` of the language; `checksums` (SHA-256) of the files of the test records; `sets`, the further sets.
    After `with_origin`: `commit` of the program that began it, and `machine`: device and torch that began it, then those of
    resumptions with their commits; `cpu_seconds` of training; `parameters` of the model. In an archive, `values`: numbers that
    were measured on records which are not there, by title of a table's column.
    """

    folder: Path
    config: RunConfig
    seed: int
    rows: Sequence[dict[str, Any]]
    answers: Table
    about: Mapping[str, Any] = field(default_factory=dict)

    def of(self, name: str, depths: tuple[int, int] | None = None) -> Table:
        """Return the answers of a set; of `epochs` the metrics, with `best` for the one evaluated.

        depths: only of trees of these depths, or of these values of the measure that the configuration groups by.
        """
        if name == EPOCHS:
            best = self.best_row()
            return pl.DataFrame([{**row, "best": row is best} for row in self.rows], infer_schema_length=None)
        table = self.answers.filter(pl.col("set") == name)
        return table.filter(pl.col(self.config.data.group_by).is_between(*depths)) if depths else table

    def with_set(self, name: str, table: Table) -> Self:
        """Return the run with the answers of one more set."""
        answers = records.joined([self.answers, table.with_columns(set=pl.lit(name))])
        sets = self.sets if name in OWN else [*self.sets, name]
        return replace(self, answers=answers, about={**self.about, "sets": sets})

    @property
    def sets(self) -> Sequence[str]:
        """The names of the further sets."""
        return self.about.get("sets", ())

    @property
    def trained(self) -> range:
        """The depths of the training set, or its values of the measure that the configuration groups by."""
        measured = self.about.get("measured")
        return range(measured[0], measured[1] + 1) if measured else self.config.data.depths

    @property
    def origin(self) -> str:
        """Where it was trained, of a result of `with_origin`."""
        return f"commit {self.about['commit']}, {self.about['machine']}"

    def best_row(self) -> dict[str, Any] | None:
        """Return the metrics of the epoch whose weights were evaluated, by validation accuracy if unknown; None without any."""
        of_best_epoch = (row for row in self.rows if row["epoch"] == self.about.get("best_epoch"))
        most_accurate = max(self.rows, key=lambda row: row["validation_accuracy"], default=None)
        return next(of_best_epoch, most_accurate)


def read(folder: Path, on: str = "", *, cuts: bool = True) -> RunResult:
    """Read a run folder.

    on: a data file that the run was evaluated on; its records are then `test`, in place of those of the test sets. Records of
    several test sets have the column `file`, since their ids may be equal. cuts: whether equations with a value on a branch
    cut count.
    Raises CheckpointError for a folder that holds no complete run, DataError for a run without test records.
    """
    run = Run.open(folder)
    data = run.config.data
    validation = records.joined(run.read_records(name) for name in data.validation)
    files = [on] if on else data.test or [name for name in run.evaluated_data() if name not in data.validation]
    tables = [run.read_records(name) for name in files]
    if len(files) != 1:
        tables = [table.with_columns(file=pl.lit(name)) for name, table in zip(files, tables, strict=True)]
    test = records.joined(tables)
    if not len(test):
        raise DataError(f"The run has no test records. Evaluate it: treestack evaluate {folder} FILE.", folder)
    # Records of nodes have the depth of the node in `depth`; a run is trained on depths of whole trees.
    of_tree = "depth of the tree" if "depth of the tree" in validation.columns else "depth"
    depth = pl.coalesce(of_tree, "depth")
    within = validation.filter(depth.is_between(data.depths.start, data.depths.stop - 1))
    about = {
        "equations": run.environment.get("equations", {}).get("train", 0),
        "measured": range_of(run.environment.get("measured")),
        "best_epoch": run.best_epoch(),
        "classes": run.language.classes,
        "checksums": tuple(run.find_records(name)[1] for name in files),
    }
    result = RunResult(folder, run.config, run.seed, run.read_metrics(), records.joined([]), about)
    result = result.with_set("validation", within).with_set("test", test)
    return result if cuts else replace(result, answers=records.without_cuts(result.answers))


def read_any(folder: Path) -> RunResult:
    """Read the folder of a finished run on a text or on streams. Raises CheckpointError, DataError.

    `about` has what `with_origin` adds, and `trace`, the actions of a Stack RNN, where there is one.
    """
    run = Run(folder)
    config: Any = run.any_config
    trace = [read_json(line)[0] for line in run.trace.read_text().splitlines()] if run.trace.exists() else []
    answers = records.read(run.answers)
    return with_origin(RunResult(folder, config, run.seed, run.read_metrics(), answers, {"trace": trace} if trace else {}))


def with_origin(result: RunResult) -> RunResult:
    """Return the result of a run folder with its commit, machine, CPU time and number of parameters."""
    run, parameters = Run(result.folder), 0
    if run.best.exists():
        with opened(run.best, "numpy") as file:
            parameters = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    origin = {
        "commit": run.environment.get("commit") or "unknown",
        "machine": machine_of(run.environment),
        "cpu_seconds": sum(row["cpu_seconds"] for row in run.read_times()),
        "parameters": parameters,
    }
    return replace(result, about={**result.about, **origin})


def by_config(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Group runs that differ only in their seed: name of the configuration -> runs.

    Raises DataError for no runs at all, for two configurations of one name, and for a seed given twice.
    """
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        group = groups.setdefault(run.config.name, [])
        fault = ""
        if group and group[0].config.hash != run.config.hash:
            fault = f"Its configuration is called {run.config.name!r} like that of {group[0].folder}, but differs from it. "
            fault += "Train one of the two under another name, or leave it out."
        elif any(earlier.seed == run.seed for earlier in group):
            fault = f"Seed {run.seed} of {run.config.name!r} is given twice."
        if fault:
            raise DataError(fault, run.folder)
        group.append(run)
    if not groups:
        raise DataError("Name at least one run folder.")
    return groups
