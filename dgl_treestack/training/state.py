"""The state of a training: Adam's moments and the run's progress, saved in one file with the weights."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import CheckpointError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import load_into, read_weights, write_weights
from dgl_treestack.training.adam import NamedAdam

Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and description


@dataclass
class Progress:
    """The progress of a run.

    epoch: finished epochs. step: finished steps of the current epoch. loss_sum, right, seen: over the outputs of these steps,
    the sum of losses, the number of correct outputs, their number. best_accuracy, best_epoch: on the validation
    set; for a task that selects by loss, best_accuracy is minus the loss.
    stale: epochs since the best one. plateau: epochs since the best one or the last reduction of the learning rate. rows: one
    per finished epoch, as in metrics.jsonl.
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


@dataclass(frozen=True)
class SavedRun:
    """What the folder of a run has of an earlier process: nothing for a new one.

    checkpoint: what `read_weights` returns. times: as in times.jsonl.
    """

    language: Signature | None = None
    vocabulary: Vocabulary | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    times: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, run: Run) -> "SavedRun":
        """Read the folder of a run. Raises CheckpointError for a damaged one."""
        checkpoint = read_weights(run.last) if run.last.exists() else None
        if not run.has_description():
            return cls(checkpoint=checkpoint, times=run.read_times())
        return cls(run.language, run.vocabulary, run.environment, checkpoint, run.read_times())


def save(path: Path, model: nn.Module, adam: NamedAdam, progress: Progress) -> None:
    """Write a checkpoint, atomically."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"adam/{name}": tensor for name, tensor in adam.tensors().items()}
    description = {"progress": dataclasses.asdict(progress), "learning_rate": adam.learning_rate}
    write_weights(path, tensors, description)


def restore(path: Path, checkpoint: Checkpoint, model: nn.Module, adam: NamedAdam) -> Progress:
    """Restore model and optimizer from a checkpoint and return the run's progress. Raises CheckpointError.

    path: of the checkpoint, for errors. checkpoint: what `read_weights` returns for it.
    """
    tensors, description = checkpoint
    device = next(model.parameters()).device
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "adam": {}}
    try:
        for name, tensor in tensors.items():
            part, _, key = name.partition("/")
            parts[part][key] = tensor.to(device)
        json.dumps(description, allow_nan=False)  # ValueError for a number that is not finite
        progress, learning_rate = Progress(**description["progress"]), float(description["learning_rate"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is no checkpoint of a training ({error!r}). Train again.") from None
    load_into(model, parts["model"], path)
    adam.restore(parts["adam"])
    adam.learning_rate = learning_rate
    return progress
