"""Memory for what a sweep holds, kept from one sweep to the next: asking the system for fresh pages costs more than computing.

A sweep takes tensors one after the other from a block. When nobody holds the sweep any more, neither its graph for autograd nor
its states, the block waits for the next one. GPUs have an allocator of their own that does as much.
"""

import math
from contextlib import suppress

import torch
from torch import Tensor

LARGEST = 2**31  # bytes of a block that is kept
SMALL = 2**14  # numbers; of fewer a tensor is the allocator's
ALIGNED = 64  # bytes

_waiting: dict[torch.dtype, list[Tensor]] = {}


class Memory:
    """What one sweep takes its tensors from. They are good as long as somebody holds it."""

    def __init__(self, dtype: torch.dtype, device: torch.device):
        self.dtype, self.device = dtype, device
        self.blocks: list[Tensor] = []
        if device.type == "cpu":
            with suppress(KeyError, IndexError):  # another thread may take the last one
                self.blocks.append(_waiting[dtype].pop())
        self.taken = 0  # of the last block

    def empty(self, *shape: int) -> Tensor:
        """A tensor with anything in it."""
        count = math.prod(shape)
        if count < SMALL or self.device.type != "cpu":
            return torch.empty(shape, dtype=self.dtype, device=self.device)
        if not self.blocks or self.taken + count > self.blocks[-1].numel():
            self.blocks.append(torch.empty(max(count, 2 * self._size()), dtype=self.dtype))
            self.taken = 0
        block, start = self.blocks[-1], self.taken
        self.taken += -(-count * self.dtype.itemsize // ALIGNED) * ALIGNED // self.dtype.itemsize
        # Not a view: autograd would take writing to one part of a block for writing to all.
        return block.new_empty(0).set_(block.untyped_storage(), start, shape)  # type: ignore[call-overload]

    def mark(self) -> tuple[int, int]:
        """For `back_to`."""
        return len(self.blocks), self.taken

    def back_to(self, mark: tuple[int, int]) -> None:
        """Give back what was taken since; what lies in blocks begun since stays taken."""
        if len(self.blocks) == mark[0]:
            self.taken = mark[1]

    def _size(self) -> int:
        return sum(block.numel() for block in self.blocks)

    def __del__(self) -> None:
        waiting = _waiting.setdefault(self.dtype, [])
        if self.blocks and len(waiting) < 2 and self._size() * self.dtype.itemsize <= LARGEST:
            waiting.append(self.blocks[0] if len(self.blocks) == 1 else torch.empty(self._size(), dtype=self.dtype))
