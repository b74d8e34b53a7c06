"""Memory of a sweep, kept from one sweep to the next: fresh pages of the operating system cost more than the computation.

A sweep takes tensors one after the other from a block. When neither its autograd graph nor its states are referenced any more,
the block is kept for the next sweep. GPUs have a caching allocator of their own.
"""

import math
from contextlib import suppress

import torch
from torch import Tensor

LARGEST_BLOCK = 2**31  # bytes; a larger block is not kept
SMALLEST = 2**14  # numbers; a tensor with fewer comes from torch's allocator
ALIGNMENT = 64  # bytes

_free_blocks: dict[torch.dtype, list[Tensor]] = {}


class Arena:
    """The memory of one sweep. Its tensors are valid as long as the arena is referenced."""

    def __init__(self, dtype: torch.dtype, device: torch.device):
        self.dtype, self.device = dtype, device
        self.blocks: list[Tensor] = []
        if device.type == "cpu":
            with suppress(KeyError, IndexError):  # another thread may have taken the last block
                self.blocks.append(_free_blocks[dtype].pop())
        self.used = 0  # numbers of the last block

    def empty(self, *shape: int) -> Tensor:
        """An uninitialised tensor."""
        count = math.prod(shape)
        if count < SMALLEST or self.device.type != "cpu":
            return torch.empty(shape, dtype=self.dtype, device=self.device)
        if not self.blocks or self.used + count > self.blocks[-1].numel():
            self.blocks.append(torch.empty(max(count, 2 * self._size()), dtype=self.dtype))
            self.used = 0
        block, start = self.blocks[-1], self.used
        self.used += -(-count * self.dtype.itemsize // ALIGNMENT) * ALIGNMENT // self.dtype.itemsize
        # Not a view: autograd would treat a write to one part of the block as a write to all of it.
        return block.new_empty(0).set_(block.untyped_storage(), start, shape)  # type: ignore[call-overload]

    def mark(self) -> tuple[int, int]:
        """A position for `reset_to`."""
        return len(self.blocks), self.used

    def reset_to(self, mark: tuple[int, int]) -> None:
        """Free what was taken since the mark. Tensors in blocks that were begun since stay taken."""
        if len(self.blocks) == mark[0]:
            self.used = mark[1]

    def _size(self) -> int:
        return sum(block.numel() for block in self.blocks)

    def __del__(self) -> None:
        free = _free_blocks.setdefault(self.dtype, [])
        if self.blocks and len(free) < 2 and self._size() * self.dtype.itemsize <= LARGEST_BLOCK:
            free.append(self.blocks[0] if len(self.blocks) == 1 else torch.empty(self._size(), dtype=self.dtype))
