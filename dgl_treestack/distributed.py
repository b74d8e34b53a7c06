"""One run over several processes that `torchrun` starts: batches are shared out, gradients are summed, one process writes.

    torchrun --nproc-per-node 2 -m dgl_treestack train CONFIG

Every process reads the data and computes the same order of the examples; each draws the dropout of its own share.
Communication is `torch.distributed`: gloo on the CPU, NCCL on GPUs. Objects are sent as pickles of what these processes have
made themselves, never of a user's file; whoever can reach the port of the run is trusted.
"""

import atexit
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed
from torch import Tensor

from dgl_treestack import errors
from dgl_treestack.errors import ConfigurationError, ProcessError, TreestackError
from dgl_treestack.processes import processes_of_run

T = TypeVar("T")
LOST = ("connection", "peer", "timed out", "timeout", "socket", "broken pipe")  # words in errors of a lost process


@dataclass(frozen=True)
class World:
    """The processes of a run. rank: of this one, from 0 on. size: how many there are; alone, a process communicates nothing.

    Methods that communicate are called by all processes in the same order. They raise ProcessError when another one has ended.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str) -> "World":
        """Return the processes that `torchrun` has started, this one alone without it.

        device: cpu, or cuda for one GPU per process. Raises ConfigurationError for a device that does not fit.
        """
        size = processes_of_run()
        if size == 1:
            return cls()
        backend, local_rank = ("nccl" if device.startswith("cuda") else "gloo"), int(os.environ.get("LOCAL_RANK", 0))
        if backend == "nccl":
            if device != "cuda":
                raise ConfigurationError(f"torchrun gives every process a GPU of its own: --device cuda, not {device}.")
            if local_rank >= (count := torch.cuda.device_count()):
                raise ConfigurationError(f"There are more processes here than GPUs ({count}). Set --nproc-per-node {count}.")
            torch.cuda.set_device(local_rank)
        if not torch.distributed.is_initialized():
            with _communication():
                # after a restart by torchrun the store has the addresses of the processes before
                store, rank, size = next(torch.distributed.rendezvous("env://"))
                store = torch.distributed.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
                torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
            atexit.register(torch.distributed.destroy_process_group)
        return cls(torch.distributed.get_rank(), size)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes the run folder."""
        return self.rank == 0

    def shares(self, sizes: np.ndarray) -> np.ndarray:
        """Return (G,) the rank that computes each tree of a batch, so that all have about as many nodes.

        sizes: (G,) nodes of the trees. From the largest tree on they go to ranks 0, 1, ..., n - 1, n - 1, ..., 1, 0, 0, 1, ...
        """
        # By nodes, although distinct subtrees are what is computed: of 8,600 in a batch of 1,024, two shares have 4,600
        # each (at most 1.86 times as fast). Putting trees with common subtrees together left 4,480 (1.93).
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
        outcome: list[Any] = [None, "", ""]  # result, class of an error, its message
        error: TreestackError | None = None
        if self.is_first:
            try:
                outcome[0] = action()
            except TreestackError as fault:
                error, outcome[1:] = fault, [type(fault).__name__, str(fault)]
        with _communication():
            torch.distributed.broadcast_object_list(outcome, src=0)
        result, name, message = outcome
        if name:
            raise error or getattr(errors, name, ConfigurationError)(message)
        return result

    def gathered(self, items: Sequence[T]) -> list[T]:
        """Return the items of all processes in the order of ranks, to the first process; the others get their own."""
        if self.size == 1:
            return list(items)
        parts: list[Any] | None = [None] * self.size if self.is_first else None
        with _communication():
            torch.distributed.gather_object(list(items), parts, dst=0)
        return [item for part in parts for item in part] if parts else list(items)

    def check_same(self, what: str, *contents: bytes) -> None:
        """Raise ConfigurationError on all processes unless some bytes are the same on all. what: their name, in the plural."""
        digest = 0
        for content in contents:
            digest = zlib.crc32(content, digest)
        number = digest % 1_000_003  # so that the square of the sum is exact
        total, squares = self.sums(number, number**2)
        if total**2 != self.size * squares:
            raise ConfigurationError(f"The {what} differ from process to process. Copy the same files to all machines.")

    def sums(self, *numbers: float) -> list[float]:
        """Return the sums of some numbers over all processes."""
        if self.size == 1:
            return list(numbers)
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        total = torch.tensor(numbers, dtype=torch.float64, device=device)
        with _communication():
            torch.distributed.all_reduce(total)
        return total.tolist()

    def sum_gradients(self, parameters: Sequence[Tensor], *numbers: float) -> list[float]:
        """Replace gradients by their sums over all processes, and return those of some numbers.

        A parameter keeps None where no process has a gradient. All of it is one message, because on one machine the delay of a
        message costs more than its size; the numbers are summed in the precision of the parameters.
        """
        if self.size == 1:
            return list(numbers)
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        has_gradient = [float(parameter.grad is not None) for parameter in parameters]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        head = torch.tensor([*numbers, *has_gradient]).to(gradients[0])
        # Between two processes of one machine a message takes 1.3 to 1.7 ms, whatever its size.
        buffer = torch.cat([head, *(gradient.reshape(-1) for gradient in gradients)])
        with _communication():
            torch.distributed.all_reduce(buffer)
        totals, used, *sums = buffer.split([len(numbers), len(parameters), *(parameter.numel() for parameter in parameters)])
        for parameter, count, total in zip(parameters, used.tolist(), sums, strict=True):
            if count:
                parameter.grad = total.view_as(parameter)
        return totals.tolist()


ALONE = World()


@contextmanager
def _communication() -> Iterator[None]:
    """Turn the errors of a lost connection into a ProcessError."""
    try:
        yield
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in LOST):
            raise
        raise ProcessError(
            f"Another process of this run has ended ({str(error).splitlines()[0]}). Its own message says why. Go on from the "
            "last checkpoint with --resume."
        ) from error
