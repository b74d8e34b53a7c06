"""A run folder with its model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import atomic
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.model.model import Model
from dgl_treestack.runs import configuration, weights
from dgl_treestack.runs.configuration import ModelConfig, RunConfig
from dgl_treestack.runs.folder import RunFolder


class Run(RunFolder):
    """A run folder, existing or to be created, with its model.

    >>> Run.open("runs/quickstart-tree_smu-0").load_model()  # doctest: +SKIP
    """

    @classmethod
    def create(cls, folder: Path, config: RunConfig, seed: int, environment: Mapping[str, Any]) -> "Run":
        """Create a folder with the description of a run. Raises OutputError."""
        vocabulary = Vocabulary.preset(config.model.vocabulary)
        described = {"seed": seed, "config": config.hash, **environment}
        atomic.write_text(folder / "config.toml", configuration.dump(config))
        atomic.write_text(folder / "vocabulary.json", json.dumps(vocabulary.to_dict(), indent=1) + "\n")
        atomic.write_text(folder / "environment.json", json.dumps(described, indent=1) + "\n")
        return cls(folder)

    def load_model(self, dtype: torch.dtype = torch.float32) -> Model:
        """Return the model with the best weights, in evaluation mode. Raises CheckpointError."""
        tensors, _ = weights.read(self.best)
        model = build_model(self.config.model, Vocabulary.from_dict(self.read_json("vocabulary.json")))
        weights.load_into(model, tensors, self.best)
        return model.to(dtype).eval()


def build_model(config: ModelConfig, vocabulary: Vocabulary | None = None) -> Model:
    """Return the model of a configuration, its parameters uninitialised. Raises ConfigurationError, VocabularyError."""
    return Model.build(
        config.name,
        config.hidden,
        Vocabulary.preset(config.vocabulary) if vocabulary is None else vocabulary,
        config.tasks,
        masks=config.masks,
        dropout=config.dropout,
        share=config.share,
        **config.settings,
    )
