"""One run over several processes that `torchrun` starts: batches are shared out, gradients are summed, one process writes.

    torchrun --nproc-per-node 2 -m dgl_treestack train CONFIG

Every process reads the data and computes the same order of the examples. Communication is `torch.distributed`: gloo on the CPU,
NCCL on GPUs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed
from torch import nn

from dgl_treestack.errors import ConfigurationError, ProcessError, TreestackError

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """The processes of a run. rank: of this one, from 0 on. size: how many there are; alone, a process communicates nothing.

    Methods that communicate are called by all processes in the same order. They raise ProcessError when another one has ended.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str) -> "World":
        """Return the processes that `torchrun` has started, this one alone without it."""
        size = int(os.environ.get("WORLD_SIZE", 1))
        if size == 1:
            return cls()
        if not torch.distributed.is_initialized():
            on_gpu = device.startswith("cuda")
            if on_gpu:
                torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            with _communication():
                torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
        return cls(torch.distributed.get_rank(), size)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes the run folder."""
        return self.rank == 0

    def shares(self, sizes: np.ndarray) -> np.ndarray:
        """Return (G,) the rank that computes each tree of a batch, so that all have about as many nodes.

        sizes: (G,) nodes of the trees. From the largest tree on, ranks take turns there and back.
        """
        turn = np.arange(len(sizes)) % (2 * self.size)
        rank_of_tree = np.empty(len(sizes), dtype=np.int64)
        rank_of_tree[np.argsort(-sizes, kind="stable")] = np.minimum(turn, 2 * self.size - 1 - turn)
        return rank_of_tree

    def part(self, count: int) -> slice:
        """Return this process's part of `count` items: neighbours, so that the parts in the order of ranks are the whole."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def first(self, action: Callable[[], T]) -> T:
        """Return what an action returns on the first process, which alone runs it. Its TreestackError is raised everywhere."""
        if self.size == 1:
            return action()
        outcome: list[Any] = [None, ""]
        error: TreestackError | None = None
        if self.is_first:
            try:
                outcome[0] = action()
            except TreestackError as fault:
                outcome[1], error = str(fault), fault
        with _communication():
            torch.distributed.broadcast_object_list(outcome, src=0)
        if outcome[1]:
            raise error or ConfigurationError(outcome[1])
        return outcome[0]

    def gathered(self, items: Sequence[T]) -> list[T]:
        """Return the items of all processes in the order of ranks, to the first process; the others get their own."""
        if self.size == 1:
            return list(items)
        parts: list[Any] | None = [None] * self.size if self.is_first else None
        with _communication():
            torch.distributed.gather_object(list(items), parts, dst=0)
        return [item for part in parts for item in part] if parts else list(items)

    def sums(self, *numbers: float) -> list[float]:
        """Return the sums of some numbers over all processes."""
        if self.size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=self._device())
        with _communication():
            torch.distributed.all_reduce(total)
        return total.tolist()

    def sum_gradients(self, parameters: Sequence[nn.Parameter], *numbers: float) -> list[float]:
        """Replace gradients by their sums over all processes, and return those of some numbers.

        A parameter keeps None where no process has a gradient. All of it is one message, because on one machine the delay of a
        message costs more than its size; the numbers are summed in the precision of the parameters.
        """
        if self.size == 1:
            return list(numbers)
        has_gradient = [float(parameter.grad is not None) for parameter in parameters]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        head = torch.tensor([*numbers, *has_gradient]).to(gradients[0])
        buffer = torch.cat([head, *(gradient.reshape(-1) for gradient in gradients)])
        with _communication():
            torch.distributed.all_reduce(buffer)
        totals, used, *sums = buffer.split([len(numbers), len(parameters), *(parameter.numel() for parameter in parameters)])
        for parameter, count, total in zip(parameters, used.tolist(), sums, strict=True):
            if count:
                parameter.grad = total.view_as(parameter)
        return totals.tolist()

    @staticmethod
    def _device() -> str:
        """Return the device of tensors that the backend can send."""
        return "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"


ALONE = World()


@contextmanager
def _communication() -> Iterator[None]:
    """Turn the errors of a lost connection into a ProcessError."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ProcessError(
            f"Another process of this run has ended ({reason}). Its own message says why. Go on from the last checkpoint with "
            "--resume."
        ) from None
