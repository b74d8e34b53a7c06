"""The contract of an objective: all that the training loop does not know of what a run learns."""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from dgl_treestack.errors import DivergenceError
from dgl_treestack.processes import Watch
from dgl_treestack.runs.configuration import ScheduleConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.training.state import Progress


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
        """Run one step: forward, loss, backward, optimizer. watch: has the signal that this process has received.

        Raises DivergenceError, before the parameters change, for a loss or a gradient that is not finite.
        """

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
    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint, besides those of the model."""

    def values(self) -> dict[str, Any]:
        """Return what else a checkpoint holds, as plain data."""
        return {}

    @abc.abstractmethod
    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore what `tensors` and `values` have returned."""

    def divergence(self, fault: str) -> DivergenceError:
        """Return the error of a run that diverged, with the remedy."""
        checkpoint_hint = f" The last checkpoint is {self.run.last}." if self.run.last.exists() else ""
        return DivergenceError(f"{fault} Lower the learning rate.{checkpoint_hint}")
