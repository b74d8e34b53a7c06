"""A run folder: everything that one training with one seed leaves.

config.toml         fully resolved; runs that differ only in their seed share its hash
environment.json    versions, device, commit, seed
vocabulary.json     rows of the embedding table
metrics.jsonl       one row per epoch
records/<data>.jsonl
checkpoints/best.safetensors, last.safetensors
DONE                written last
"""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import atomic, records
from dgl_treestack.errors import CheckpointError
from dgl_treestack.model import Model
from dgl_treestack.training import configuration, weights
from dgl_treestack.training.configuration import RunConfig
from dgl_treestack.vocabulary import Vocabulary


class Run:
    """A run folder, there or to be made."""

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        self.best = self.folder / "checkpoints" / "best.safetensors"
        self.last = self.folder / "checkpoints" / "last.safetensors"
        self.metrics = self.folder / "metrics.jsonl"
        self.log = self.folder / "train.log"
        self.done = self.folder / "DONE"

    @classmethod
    def create(cls, folder: Path, config: RunConfig, seed: int, environment: Mapping[str, Any]) -> "Run":
        """A new folder with the description of a run."""
        run = cls(folder)
        atomic.write_text(folder / "config.toml", configuration.dump(config))
        vocabulary = Vocabulary.preset(config.model.vocabulary)
        atomic.write_text(folder / "vocabulary.json", json.dumps(vocabulary.to_dict(), indent=1) + "\n")
        atomic.write_text(
            folder / "environment.json", json.dumps({"seed": seed, "config": config.hash, **environment}, indent=1) + "\n"
        )
        return run

    @classmethod
    def open(cls, folder: Path | str) -> "Run":
        """A folder that is there. Raises CheckpointError when it is no run folder."""
        run = cls(folder)
        for name in ("config.toml", "environment.json", "vocabulary.json"):
            if not (run.folder / name).is_file():
                raise CheckpointError(f"{run.folder} is not a run folder: it has no {name}. Give the folder that `train` made.")
        return run

    @cached_property
    def config(self) -> RunConfig:
        return configuration.load(self.folder / "config.toml")

    @cached_property
    def environment(self) -> dict[str, Any]:
        return self._json("environment.json")

    @property
    def seed(self) -> int:
        return int(self.environment["seed"])

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.from_dict(self._json("vocabulary.json"))

    def _json(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((self.folder / name).read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise CheckpointError(f"{self.folder / name} cannot be read: {error}.") from None

    def build_model(self) -> Model:
        """The model of the configuration, parameters uninitialised."""
        model = self.config.model
        return Model.build(
            model.name, model.hidden, self.vocabulary, model.tasks, dropout=model.dropout, share=model.share, **model.settings
        )

    def load_model(self, dtype: torch.dtype = torch.float32) -> Model:
        """The model with the best weights, in evaluation mode. Raises CheckpointError."""
        tensors, _ = weights.read(self.best)
        model = self.build_model()
        weights.load_into(model, tensors, self.best)
        return model.to(dtype).eval()

    def write_metrics(self, rows: Iterable[Mapping[str, Any]]) -> None:
        atomic.write_text(self.metrics, "".join(json.dumps(row) + "\n" for row in rows))

    def records_of(self, data: Path | str) -> Path:
        """Where the records of a data file are kept."""
        return self.folder / "records" / f"{records.stem(data)}.jsonl"
