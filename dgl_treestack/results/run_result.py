"""Finished runs, as input of figures and tables: configuration, seed, metrics and records, grouped by configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dgl_treestack.data.records import Record
from dgl_treestack.errors import CheckpointError, DataError
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.environment import device_of
from dgl_treestack.runs.run import Run


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    rows: metrics, one row per epoch. validation: records of the validation sets within the training depths, by which the best
    epoch was selected. test: records of the test sets. equations: number of training equations, 0 if unknown. commit: of the
    program that began it. machine: device and torch that began it, then those of resumptions, with their commits. measured:
    smallest and largest value in the training set of the measure that the configuration groups by, unless it is the depth of
    whole trees. best_epoch: whose weights were evaluated, 0 if unknown. classes: of the language. more: records of other kinds
    by name, such as `blanks` of completion. values: numbers that were measured on records which are not here, by title of a
    table's column. cpu_seconds: of training, 0 if unknown. parameters: of the model, 0 if unknown. checksums: SHA-256 of the
    files of the test records, empty if unknown.
    """

    folder: Path
    config: RunConfig
    seed: int
    rows: Sequence[dict[str, Any]]
    validation: Sequence[Record]
    test: Sequence[Record]
    equations: int = 0
    commit: str = ""
    machine: str = ""
    measured: tuple[int, int] | None = None
    best_epoch: int = 0
    classes: tuple[str, ...] = ()
    more: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    parameters: int = 0
    checksums: tuple[str, ...] = ()

    @property
    def trained(self) -> range:
        """The depths of the training set, or its values of the measure that the configuration groups by."""
        return range(self.measured[0], self.measured[1] + 1) if self.measured else self.config.data.depths

    def best_row(self) -> dict[str, Any] | None:
        """Return the metrics of the epoch whose weights were evaluated, by validation accuracy if unknown; None without any."""
        of_best_epoch = (row for row in self.rows if row["epoch"] == self.best_epoch)
        most_accurate = max(self.rows, key=lambda row: row["validation_accuracy"], default=None)
        return next(of_best_epoch, most_accurate)


def range_of(measured: Any) -> tuple[int, int] | None:
    """Return the smallest and largest value of a measure from plain data, None without any. Raises ValueError."""
    if not measured:
        return None
    is_pair = isinstance(measured, list) and len(measured) == 2
    if not is_pair or not all(type(value) in (int, float) and float(value).is_integer() for value in measured):
        raise ValueError(f"'measured' is {measured!r}, not two whole numbers")
    return round(measured[0]), round(measured[1])


def read(folder: Path, on: str = "") -> RunResult:
    """Read a run folder.

    on: a data file that the run was evaluated on; its records are then `test`, in place of those of the test sets. Records of
    several test sets have the column `file`, since their ids may be equal.
    Raises CheckpointError for a folder that holds no complete run, DataError for a run without test records.
    """
    run = Run.open(folder)
    data = run.config.data
    validation = [record for name in data.validation for record in run.read_records(name)]
    files = [on] if on else data.test or [name for name in run.evaluated_data() if name not in data.validation]
    test = [record if len(files) == 1 else {**record, "file": name} for name in files for record in run.read_records(name)]
    if not test:
        raise DataError(f"The run has no test records. Evaluate it: treestack evaluate {folder} FILE.", folder)
    within = [record for record in validation if record.get("depth of the tree", record["depth"]) in data.depths]
    equations = run.environment.get("equations", {}).get("train", 0)
    commit = run.environment.get("commit") or "unknown"
    try:
        measured = range_of(run.environment.get("measured"))
    except ValueError as error:
        raise CheckpointError(f"{folder / 'environment.json'}: {error}. The run is damaged; train again.") from None
    return RunResult(
        folder,
        run.config,
        run.seed,
        run.read_metrics(),
        within,
        test,
        equations=equations,
        commit=commit,
        machine=machine_of(run.environment),
        measured=measured,
        best_epoch=run.best_epoch(),
        classes=run.language.classes,
        cpu_seconds=sum(row["cpu_seconds"] for row in run.read_times()),
        parameters=run.count_parameters(),
        checksums=tuple(run.checksum_of_records(name) for name in files),
    )


def machine_of(environment: Mapping[str, Any]) -> str:
    """Return processor or GPU, and torch, of a run's environment as text; then epoch and origin of every resumption."""
    device = device_of(environment) or "a processor of unknown model"
    resumptions = (f", after epoch {entry['epochs']} {origin_of(entry)}" for entry in environment.get("resumed", []))
    return f"{device}, torch {environment.get('versions', {}).get('torch', 'of unknown version')}" + "".join(resumptions)


def origin_of(environment: Mapping[str, Any]) -> str:
    """Return commit and machine of a run's environment as text."""
    return f"commit {environment.get('commit') or 'unknown'}, {machine_of(environment)}"


def by_config(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Group runs that differ only in their seed: name of the configuration -> runs.

    Raises DataError for no runs at all, for two configurations of one name, and for a seed given twice.
    """
    if not runs:
        raise DataError("Name at least one run folder.")
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        group = groups.setdefault(run.config.name, [])
        if group and group[0].config.hash != run.config.hash:
            raise DataError(
                f"Its configuration is called {run.config.name!r} like that of {group[0].folder}, but differs from it. "
                "Train one of the two under another name, or leave it out.",
                run.folder,
            )
        if any(earlier.seed == run.seed for earlier in group):
            raise DataError(f"Seed {run.seed} of {run.config.name!r} is given twice.", run.folder)
        group.append(run)
    return groups
