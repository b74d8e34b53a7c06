"""The state of a training in one file, written atomically: weights, Adam's moments, and how far the run has got."""

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
    """How far a run has got.

    epoch: finished epochs. step: finished steps of the epoch that has begun. loss_sum, right, seen: over the examples of these
    steps, the sum of losses, the number of correct answers, the number of examples. best_accuracy, best_epoch: on the
    validation set. stale: epochs since the best one. plateau: epochs since the best one or since the learning rate last fell.
    rows: one per finished epoch, as in metrics.jsonl.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    right: int = 0
    seen: int = 0
    best_accuracy: float = -1.0
    best_epoch: int = 0
    stale: int = 0
    plateau: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


def save(path: Path, model: nn.Module, adam: NamedAdam, progress: Progress) -> None:
    """Write a checkpoint."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"adam/{name}": tensor for name, tensor in adam.tensors().items()}
    description = {"progress": dataclasses.asdict(progress), "learning_rate": adam.learning_rate}
    weights.write(path, tensors, description)


def load(path: Path, model: nn.Module, adam: NamedAdam) -> Progress:
    """Restore model and optimizer from a checkpoint and return the run's progress. Raises CheckpointError."""
    tensors, description = weights.read(path)
    device = next(model.parameters()).device
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "adam": {}}
    try:
        for name, tensor in tensors.items():
            part, _, key = name.partition("/")
            parts[part][key] = tensor.to(device)
        progress, learning_rate = Progress(**description["progress"]), float(description["learning_rate"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is no checkpoint of a training ({error!r}). Train anew.") from None
    weights.load_into(model, parts["model"], path)
    adam.restore(parts["adam"])
    adam.learning_rate = learning_rate
    return progress
