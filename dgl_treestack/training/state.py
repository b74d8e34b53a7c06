"""The state of a training: Adam's moments and the run's progress, saved in one file with the weights.

Random streams have no state: every draw of a run is a function of the seed, its purpose and its position in the run.
"""

import dataclasses
import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dgl_treestack._torch import fused_adam
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import CheckpointError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import load_into, read_weights, write_weights

Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and description
_STATE = ("exp_avg", "exp_avg_sq", "step")


def numpy_generator(seed: int, purpose: str, *position: int) -> np.random.Generator:
    """Return the NumPy generator of a purpose at a position, such as ("order", epoch)."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *position])


def torch_generator(seed: int, purpose: str, *position: int) -> torch.Generator:
    """Return the torch generator of a purpose at a position, such as ("dropout", epoch, step)."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *position])
    return torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


class NamedAdam:
    """Adam as in the papers, over the parameters of a module, which have one dtype and one device.

    With gradients `zeros`, a parameter that was ever used keeps a gradient of zeros and is updated at every step, so momentum
    and weight decay continue; with `none` it stays unchanged while its operator is absent. undecayed: names of parameters
    without weight decay.

    The update is the fused kernel of `torch.optim.Adam`. That class doubles the cost: at every step it checks all its options,
    and increments the step count of every parameter in a separate operation.
    """

    def __init__(self, module: nn.Module, config: OptimizerConfig, undecayed: Collection[str] = ()):
        self.config, self.learning_rate = config, config.learning_rate
        self.parameter_by_name = dict(module.named_parameters())
        self.parameters = list(self.parameter_by_name.values())
        self.decay_of = [0.0 if name in undecayed else config.weight_decay for name in self.parameter_by_name]
        self.moments: list[tuple[Tensor, Tensor] | None] = [None] * len(self.parameters)
        self.steps = torch.zeros(len(self.parameters), dtype=torch.float32, device=self.parameters[0].device)
        self.step_of = self.steps.unbind()

    def zero(self) -> None:
        """Zero all gradients, or set them to None, as configured."""
        for parameter in self.parameters:
            if self.config.gradients == "none":
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self, factor: float = 1.0) -> None:
        """Update every parameter that has a gradient. factor: of the learning rate, at this step."""
        self.update(range(len(self.parameters)), self.learning_rate * factor)

    def update(self, indices: Iterable[int], rate: float) -> None:
        """Update those of some parameters that have a gradient, by Adam."""
        gradients = {i: gradient for i in indices if (gradient := self.parameters[i].grad) is not None}
        if not gradients:
            return
        for i in gradients:
            if self.moments[i] is None:
                self.moments[i] = torch.zeros_like(self.parameters[i]), torch.zeros_like(self.parameters[i])
        self.steps += torch.tensor([i in gradients for i in range(len(self.parameters))]).to(self.steps)
        for decay in {self.decay_of[i] for i in gradients}:
            group = [i for i in gradients if self.decay_of[i] == decay]
            first, second = zip(*(self.moments[i] for i in group), strict=True)
            fused_adam(
                [self.parameters[i] for i in group],
                [gradients[i] for i in group],
                first,
                second,
                [self.step_of[i] for i in group],
                lr=rate,
                beta1=self.config.beta1,
                beta2=self.config.beta2,
                weight_decay=decay,
                eps=self.config.epsilon,
            )

    def tensors(self) -> dict[str, Tensor]:
        """Return the state: `<moment>/<parameter>` for every parameter that was ever updated."""
        return {
            f"{kind}/{name}": tensor
            for name, moments, step in zip(self.parameter_by_name, self.moments, self.step_of, strict=True)
            if moments is not None
            for kind, tensor in zip(_STATE, (*moments, step.clone()), strict=True)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a saved state; with gradients `zeros`, parameters that were ever updated get a gradient of zeros."""
        for i, (name, parameter) in enumerate(self.parameter_by_name.items()):
            if f"step/{name}" in tensors:
                first, second, step = (tensors[f"{kind}/{name}"].clone() for kind in _STATE)
                self.moments[i] = first, second
                self.steps[i] = step
                parameter.grad = None if self.config.gradients == "none" else torch.zeros_like(parameter)


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
