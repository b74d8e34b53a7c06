"""Run folders as figures and tables see them: configuration, seed and records."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgl_treestack import records
from dgl_treestack.errors import DataError
from dgl_treestack.records import Record
from dgl_treestack.training import configuration
from dgl_treestack.training.configuration import RunConfig


@dataclass(frozen=True)
class RunResult:
    """A finished run. rows: one per epoch. validation, test: the records of its data sets."""

    folder: Path
    config: RunConfig
    seed: int
    rows: Sequence[dict[str, Any]]
    validation: Sequence[Record]
    test: Sequence[Record]


def read(folder: Path) -> RunResult:
    """Read a run folder. Raises DataError when it has no test records."""
    config = configuration.load(folder / "config.toml")
    environment = json.loads((folder / "environment.json").read_text())
    test = _records(folder, config.data.test)
    if not test:
        raise DataError("The run has no test records. Finish it with `treestack train ... --resume`.", folder)
    metrics = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    return RunResult(folder, config, environment["seed"], rows, _records(folder, config.data.validation), test)


def _records(folder: Path, names: Sequence[str]) -> list[Record]:
    paths = [folder / "records" / f"{records.stem(name)}.jsonl" for name in names]
    return [record for path in paths if path.exists() for record in records.read(path)]


def by_config(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Runs that differ only in their seed, together, by the name of their configuration."""
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(run.config.name, []).append(run)
        if groups[run.config.name][0].config.hash != run.config.hash:
            raise DataError(
                f"It is called {run.config.name!r} like {groups[run.config.name][0].folder}, but differs.", run.folder
            )
    return groups
