"""The state of a training in one file: weights, Adam's moments, and where the run stands. Written atomically."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dgl_treestack.errors import CheckpointError
from dgl_treestack.runs import weights
from dgl_treestack.training.optimizer import NamedAdam


@dataclass
class Progress:
    """Where a run stands: finished epochs, finished steps of the next one, and what is known so far."""

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    right: int = 0
    seen: int = 0
    best_accuracy: float = -1.0
    best_epoch: int = 0
    stale: int = 0  # epochs since the best one
    plateau: int = 0  # epochs since the best one or since the learning rate fell
    rows: list[dict[str, Any]] = field(default_factory=list)


def save(path: Path, model: nn.Module, adam: NamedAdam, progress: Progress) -> None:
    """Write a checkpoint."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"adam/{name}": tensor for name, tensor in adam.tensors().items()}
    description = {"progress": dataclasses.asdict(progress), "learning_rate": adam.learning_rate}
    weights.write(path, tensors, description)


def load(path: Path, model: nn.Module, adam: NamedAdam) -> Progress:
    """Put a checkpoint into model and optimizer, and return where the run stood. Raises CheckpointError."""
    tensors, description = weights.read(path)
    device = next(model.parameters()).device
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "adam": {}}
    try:
        for name, tensor in tensors.items():
            part, _, key = name.partition("/")
            parts[part][key] = tensor.to(device)
        progress, rate = Progress(**description["progress"]), float(description["learning_rate"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is no checkpoint of a training ({error!r}). Train anew.") from None
    weights.load_into(model, parts["model"], path)
    adam.restore(parts["adam"])
    adam.learning_rate = rate
    return progress
