"""The state of a training: the run's progress and the state of its objective, saved in one file with the weights."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, optim

from dgl_treestack import plain_data
from dgl_treestack.errors import CheckpointError
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import load_into, read_weights, write_weights

if TYPE_CHECKING:
    from dgl_treestack.training.objective import Objective

Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and description


@dataclass(frozen=True)
class Counts:
    """What a step adds to the metrics of its epoch: the sum of losses, the number of outputs, and of correct ones.

    stop: nonzero if any of the processes that train the run together has received a signal.
    """

    loss_sum: float
    seen: int
    right: int = 0
    stop: float = 0


@dataclass
class Progress:
    """The progress of a run.

    epoch: finished epochs. step: finished steps of the current epoch. loss_sum, right, seen: over the outputs of these steps,
    the sum of losses, the number of correct outputs, their number. learning_rate: of the current epoch, before warmup and
    decay. best_quality, best_epoch: on the validation set. stale: epochs since the best one. plateau: epochs since the best one
    or the last reduction of the learning rate. rows: one per finished epoch, as in metrics.jsonl.
    """

    learning_rate: float
    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    right: int = 0
    seen: int = 0
    best_quality: float = -1.0
    best_epoch: int = 0
    stale: int = 0
    plateau: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, counts: Counts) -> None:
        """Add what a step has counted."""
        self.loss_sum += counts.loss_sum
        self.seen += counts.seen
        self.right += counts.right


@dataclass(frozen=True)
class SavedRun:
    """What the folder of a run has of an earlier process: nothing for a new one.

    checkpoint: what `read_weights` returns. times: as in times.jsonl.
    """

    environment: dict[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    times: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, run: Run) -> "SavedRun":
        """Read the folder of a run. Raises CheckpointError for a damaged one."""
        checkpoint = read_weights(run.last) if run.last.exists() else None
        return cls(run.environment if run.has_description() else {}, checkpoint, run.read_times())


def save(path: Path, objective: "Objective", progress: Progress) -> None:
    """Write a checkpoint, atomically."""
    tensors = {f"model/{name}": tensor for name, tensor in objective.model.state_dict().items()}
    tensors |= {f"objective/{name}": tensor for name, tensor in objective.tensors().items()}
    write_weights(path, tensors, {"progress": dataclasses.asdict(progress), "objective": objective.values()})


def restore(path: Path, checkpoint: Checkpoint, objective: "Objective") -> Progress:
    """Restore an objective and its model from a checkpoint and return the run's progress. Raises CheckpointError.

    path: of the checkpoint, for errors. checkpoint: what `read_weights` returns for it.
    """
    tensors, description = checkpoint
    device = next(objective.model.parameters()).device
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "objective": {}}
    try:
        for name, tensor in tensors.items():
            part, _, key = name.partition("/")
            parts[part][key] = tensor.to(device)
        json.dumps(description, allow_nan=False)  # ValueError for a number that is not finite
        progress = plain_data.build(Progress, description["progress"])
        load_into(objective.model, parts["model"], path, finite=not objective.may_diverge)
        if progress.step:
            objective.begin_epoch(progress.epoch)
        objective.restore(parts["objective"], description["objective"])
    except CheckpointError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"{path} is no checkpoint of a training ({error!r}). Train again.") from None
    return progress


def optimizer_tensors(optimizer: optim.Optimizer, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of an optimizer of torch: `<kind>/<parameter>` -> tensor."""
    state_of = {name: optimizer.state.get(parameter, {}) for name, parameter in parameters.items()}
    return {
        f"{kind}/{name}": value
        for name, state in state_of.items()
        if float(state.get("step", 1))  # a recorded step has zeros for rows that were never updated
        for kind, value in state.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: optim.Optimizer, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Restore what `optimizer_tensors` has returned; other tensors are ignored."""
    for key, tensor in tensors.items():
        kind, _, name = key.partition("/")
        if name in parameters:
            optimizer.state[parameters[name]][kind] = tensor.clone()
