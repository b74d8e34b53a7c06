"""The sweep over the frontiers of a plan, forward and backward, as one autograd function, and its memory.

Forward, frontier by frontier: the rows of the children are gathered from the buffers, the cell computes its step, the new rows
are written. Backward, in reverse order: the gradient of a frontier's rows is propagated through its step and added to the
gradients of the children's rows. A `Stepper` computes the steps and their gradients.

Sweeps reuse memory, because fresh pages of the operating system cost more than the computation. A sweep allocates tensors one
after the other in a block. When neither its autograd graph nor its states are referenced any more, the next sweep may take the
block. On GPUs torch's caching allocator does this.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from dgl_treestack._torch import once_differentiable
from dgl_treestack.cells import Cell, Shape
from dgl_treestack.propagate.levels.plan import Options, Plan

Buffers = dict[str, Tensor]
ALIGNMENT = 64  # bytes, of tensors in an arena
# A batch of 1,024 once took 20,000 page faults, three quarters of its time: a step went from 235 ms to 88 when blocks
# were kept and a leak was closed.
_free_blocks: dict[torch.dtype, list[Tensor]] = {}


class Arena:
    """The memory of one sweep. Its tensors are valid as long as the arena is referenced."""

    def __init__(self, dtype: torch.dtype, device: torch.device, options: Options):
        self.dtype, self.device, self.options = dtype, device, options
        self.blocks: list[Tensor] = []
        if device.type == "cpu":
            with suppress(KeyError, IndexError):  # another thread may have taken the last block
                self.blocks.append(_free_blocks[dtype].pop())
        self.used = 0  # elements of the last block

    def empty(self, *shape: int) -> Tensor:
        """An uninitialised tensor."""
        count = math.prod(shape)
        if count < self.options.arena_numbers or self.device.type != "cpu":
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
        """Free the tensors allocated since the mark, unless a new block was begun since."""
        if len(self.blocks) == mark[0]:
            self.used = mark[1]

    def _size(self) -> int:
        return sum(block.numel() for block in self.blocks)

    def __del__(self) -> None:
        free = _free_blocks.setdefault(self.dtype, [])
        if self.blocks and len(free) < 2 and self._size() * self.dtype.itemsize <= self.options.arena_bytes:
            free.append(self.blocks[0] if len(self.blocks) == 1 else torch.empty(self._size(), dtype=self.dtype))


@dataclass(frozen=True, eq=False)
class Work:
    """The input of a sweep. inputs: external input (N, input_size) or None. shapes: of a row of every field, then signal."""

    cell: Cell
    plan: Plan
    inputs: Tensor | None
    noise: Mapping[str, Tensor]
    shapes: Mapping[str, Shape]
    arena: Arena


class Stepper(Protocol):
    """Computes a cell's steps and their gradients.

    `forward` fills the buffers and, if `recording`, saves what `backward` needs. `backward` adds to the gradients of the
    buffers, and to that of external input unless it is None. `take_gradients` returns the gradients of `parameters`, None for
    those that were not used, and resets them.
    """

    parameters: list[Tensor]

    def forward(self, buffers: Buffers, recording: bool) -> None: ...

    def backward(self, buffers: Buffers, gradients: Buffers, input_gradient: Tensor | None) -> None: ...

    def take_gradients(self) -> list[Tensor | None]: ...


def sweep(work: Work, stepper: Stepper, leaves: Tensor) -> Buffers:
    """The rows of every buffer, from the leaves' h (L, H)."""
    buffers = _Sweep.apply(work, stepper, torch.is_grad_enabled(), leaves, work.inputs, *stepper.parameters)
    return dict(zip(work.shapes, buffers, strict=True))


# One function for all frontiers keeps memory linear in nodes: 65,536 equations take 3.2 GB with native code.
class _Sweep(torch.autograd.Function):
    """(leaves' h, external input, parameters) -> rows of every buffer."""

    @staticmethod
    def forward(
        ctx: Any, work: Work, stepper: Stepper, recording: bool, leaves: Tensor, inputs: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        buffers = {name: work.arena.empty(work.plan.rows, *shape) for name, shape in work.shapes.items()}
        for name, buffer in buffers.items():
            if name not in work.cell.fields:  # a step need not compute all signals
                buffer.zero_()
            leaf_rows = buffer.narrow(0, 0, len(leaves))
            leaf_rows.copy_(leaves) if name == "h" else leaf_rows.fill_(work.cell.empty.get(name, 0.0))
            buffer.select(0, -1).zero_()
        stepper.forward(buffers, recording)
        ctx.work, ctx.stepper, ctx.leaves = work, stepper, len(leaves)
        ctx.wants_inputs = inputs is not None and inputs.requires_grad and bool(work.plan.frontiers)
        # `backward` reads all of these: saved, so that torch reports a change in place
        external = [] if inputs is None else [inputs]
        ctx.save_for_backward(*buffers.values(), *external, *work.noise.values(), *stepper.parameters)
        ctx.set_materialize_grads(False)  # None, not a tensor of zeros, for a field that no loss reads
        return tuple(buffers.values())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *output_gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        work, stepper = ctx.work, ctx.stepper
        buffers = dict(zip(work.shapes, ctx.saved_tensors, strict=False))
        mark = work.arena.mark()
        gradients = {name: work.arena.empty(*buffer.shape) for name, buffer in buffers.items()}
        for gradient, output_gradient in zip(gradients.values(), output_gradients, strict=True):
            gradient.zero_() if output_gradient is None else gradient.copy_(output_gradient)
        input_gradient = torch.zeros_like(work.inputs) if ctx.wants_inputs else None
        stepper.backward(buffers, gradients, input_gradient)
        # The stepper keeps no reference to them: autograd copies a gradient that somebody else holds.
        parameter_gradients = stepper.take_gradients()
        leaf_gradient = gradients["h"][: ctx.leaves].clone()  # a copy, since the next line frees its memory
        work.arena.reset_to(mark)
        return None, None, None, leaf_gradient, input_gradient, *parameter_gradients
