"""The contract of an objective: all that the training loop does not know of what a run learns; and its progress."""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn, optim

from dgl_treestack.errors import DivergenceError
from dgl_treestack.processes import Watch
from dgl_treestack.runs.configuration import ScheduleConfig
from dgl_treestack.runs.run import Run


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

    def add(self, counts: "Counts") -> None:
        """Add what a step has counted."""
        self.loss_sum += counts.loss_sum
        self.seen += counts.seen
        self.right += counts.right


@dataclass(frozen=True)
class Counts:
    """What a step adds to the metrics of its epoch: the sum of losses, the number of outputs, and of correct ones.

    stop: nonzero if any of the processes that train the run together has received a signal.
    """

    loss_sum: float
    seen: int
    right: int = 0
    stop: float = 0


class Objective(abc.ABC):
    """What a run learns: model, batches, loss, what is counted, and what is evaluated.

    A subclass sets `model`, `schedule`, `learning_rate` (of the start) and `notes` (lines for the log), after a resumption too.
    margin: validation is better if its quality is above this multiple of the best one. goes_back: whether training goes on
    from the best weights after an epoch that is not better. may_diverge: whether weights may be no finite numbers.
    """

    margin: ClassVar[float] = 1.0
    goes_back: ClassVar[bool] = False
    may_diverge: ClassVar[bool] = False

    run: Run
    model: nn.Module
    schedule: ScheduleConfig
    learning_rate: float
    checkpoint_steps: int
    notes: Sequence[str] = ()

    @abc.abstractmethod
    def describe(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Return what describes a new run: further files of its folder, name -> text, and entries of its environment."""

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027
        """Prepare an epoch, from 0, before its first step or before its state is restored."""

    @abc.abstractmethod
    def steps(self, epoch: int) -> int:
        """Return the number of steps of an epoch."""

    @abc.abstractmethod
    def batches(self, epoch: int, step: int) -> Iterable[Any]:
        """Return the batches of an epoch from a step on."""

    @abc.abstractmethod
    def step(self, batch: Any, progress: Progress, watch: Watch) -> Counts:
        """Run one step. watch: has the signal that this process has received.

        Raises DivergenceError, before the parameters change, for a loss or a gradient that is not finite.
        """

    def settle(self) -> Counts:
        """Return what steps have counted and not returned. Raises the errors of `step`."""
        return Counts(0.0, 0)

    @abc.abstractmethod
    def validate(self, progress: Progress) -> tuple[dict[str, float], float]:
        """Return the entries of an epoch's row of metrics, after its last step, and the quality by which the best is selected.

        Raises DivergenceError for a loss that is not finite.
        """

    @abc.abstractmethod
    def summary(self, row: Mapping[str, Any]) -> str:
        """Return a row of metrics as text for the log."""

    def evaluate(self, check: Callable[[], None]) -> None:  # noqa: B027
        """Evaluate the best weights, which the model has, and write the answers. check: raises Interrupted after a signal."""

    @abc.abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what a checkpoint holds besides the model: tensors, and plain data."""

    @abc.abstractmethod
    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore what `state` has returned."""

    def divergence(self, fault: str) -> DivergenceError:
        """Return the error of a run that diverged, with the remedy."""
        checkpoint_hint = f" The last checkpoint is {self.run.last}." if self.run.last.exists() else ""
        return DivergenceError(f"{fault} Lower the learning rate.{checkpoint_hint}")


def optimizer_tensors(optimizer: optim.Optimizer, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of an optimizer of torch: `<kind>/<parameter>` -> tensor."""
    state_of = {name: optimizer.state.get(parameter, {}) for name, parameter in parameters.items()}
    return {
        f"{kind}/{name}": value
        for name, state in state_of.items()
        for kind, value in state.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: optim.Optimizer, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Restore what `optimizer_tensors` has returned; other tensors are ignored."""
    for key, tensor in tensors.items():
        kind, _, name = key.partition("/")
        if name in parameters:
            optimizer.state[parameters[name]][kind] = tensor.clone()
