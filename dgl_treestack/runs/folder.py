"""A run folder as everybody reads it: description, metrics, records. No model and no torch.

config.toml         fully resolved; runs that differ only in their seed share its hash
environment.json    versions, device, commit, seed, checksums and sizes of the data
vocabulary.json     rows of the embedding table
metrics.jsonl       one row per epoch
records/<data>.jsonl, records/sources.json
checkpoints/best.safetensors, last.safetensors
DONE                written last
"""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.errors import CheckpointError, DataError
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig

DESCRIPTION = ("config.toml", "environment.json", "vocabulary.json")


class RunFolder:
    """Paths and contents of a run folder. Raises CheckpointError for what is missing or damaged."""

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        self.best = self.folder / "checkpoints" / "best.safetensors"
        self.last = self.folder / "checkpoints" / "last.safetensors"
        self.metrics = self.folder / "metrics.jsonl"
        self.log = self.folder / "train.log"
        self.done = self.folder / "DONE"
        self.sources = self.folder / "records" / "sources.json"

    def is_complete(self) -> bool:
        """Whether the description of a run is there; it is written before anything else."""
        return all((self.folder / name).is_file() for name in DESCRIPTION)

    def check_complete(self) -> None:
        """Raise CheckpointError when this is no run folder."""
        for name in DESCRIPTION:
            if not (self.folder / name).is_file():
                raise CheckpointError(
                    f"{self.folder} is not a run folder: it has no {name}. Give the folder that `train` made."
                )

    @cached_property
    def config(self) -> RunConfig:
        return configuration.load(self.folder / "config.toml")

    @cached_property
    def environment(self) -> dict[str, Any]:
        environment = self.read_json("environment.json")
        if not isinstance(environment.get("seed"), int):
            raise CheckpointError(f"{self.folder / 'environment.json'} names no seed. The run is damaged; train anew.")
        return environment

    @property
    def seed(self) -> int:
        return int(self.environment["seed"])

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON object in the folder."""
        try:
            data = json.loads((self.folder / name).read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.folder / name} cannot be read: {error}. The run is damaged; train anew.") from None
        if not isinstance(data, dict):
            raise CheckpointError(f"{self.folder / name} holds no JSON object. The run is damaged; train anew.")
        return data

    # Metrics

    def write_metrics(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """One row per epoch."""
        atomic.write_text(self.metrics, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))

    def read_metrics(self) -> list[dict[str, Any]]:
        """The rows, none before the first epoch is over."""
        if not self.metrics.exists():
            return []
        try:
            rows = [json.loads(line) for line in self.metrics.read_text().splitlines()]
            return [row for row in rows if row["epoch"] and row["validation_accuracy"] is not None]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.metrics} is damaged ({error!r}). Resume the run to write it again.") from None

    # Records, filed by the name of their data file; a second file of the same name gets its checksum appended

    def write_records(self, data: str, rows: Iterable[Record], kind: str = "") -> Path:
        """File the records of a data file, and note what file they are of. kind: of what else than an evaluation."""
        sources = self._sources()
        checksum = sha256(find_data(data))
        name = records.stem(data)
        if not name:
            raise DataError(f"{data} has no name that records could be filed under.")
        name = f"{name}-{kind}" if kind else name
        if sources.get(name, {}).get("sha256", checksum) != checksum:
            name = f"{name}-{checksum[:8]}"
        path = self.folder / "records" / f"{name}.jsonl"
        records.write(path, rows)
        source = {"data": data, "sha256": checksum} | ({"kind": kind} if kind else {})
        sources.setdefault(name, source)  # the name it first had, as the configuration has it
        atomic.write_text(self.sources, json.dumps(sources, indent=1) + "\n")
        return path

    def read_records(self, data: str, kind: str = "") -> list[Record]:
        """The records of a data file, by the name it has in the configuration: of the file as it is now, where there are such,
        else the last that were made. Raises DataError when there are none."""
        found = self._filed(data, kind)
        if not found:
            raise DataError(f"The run has no records of {data}. Finish it with `treestack train ... --resume`.", self.folder)
        path = find_data(data)
        name = found.get(sha256(path) if path.is_file() else "", list(found.values())[-1])
        return records.read(self.folder / "records" / f"{name}.jsonl")

    def has_records(self, data: str, kind: str = "") -> bool:
        """Whether there are records of a data file as it is now."""
        return sha256(find_data(data)) in self._filed(data, kind)

    def _filed(self, data: str, kind: str) -> dict[str, str]:
        """Checksum of a file of that name -> what its records are filed under."""
        sources = self._sources().items()
        return {one["sha256"]: name for name, one in sources if one["data"] == data and one.get("kind", "") == kind}

    def read_records_by_checksum(self, checksum: str) -> list[Record]:
        """The records of a data file, whatever its name, none when there are none."""
        for name, source in self._sources().items():
            if source["sha256"] == checksum and "kind" not in source:
                return records.read(self.folder / "records" / f"{name}.jsonl")
        return []

    def _sources(self) -> dict[str, dict[str, str]]:
        sources = self.read_json("records/sources.json") if self.sources.exists() else {}
        if not all(isinstance(source, dict) and {"data", "sha256"} <= source.keys() for source in sources.values()):
            raise CheckpointError(f"{self.sources} is damaged. Delete the records folder and evaluate again.")
        return sources
