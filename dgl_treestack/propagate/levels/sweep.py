"""The sweep over the turns of a plan and back, as one function for autograd.

Forward, chunk by chunk: children's rows are gathered from the buffers, the cell takes its step, the new rows are written.
Backward, the same chunks in reverse: a chunk's rows of the gradient buffers go through its step, what comes out is added to the
children's rows. How steps are taken, and taken back, is a `Stepper`'s affair.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dgl_treestack.cells import Cell
from dgl_treestack.propagate.levels.memory import Memory
from dgl_treestack.propagate.levels.plan import Chunk, Plan
from dgl_treestack.propagate.noise import Noise

Buffers = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Work:
    """What a sweep is given. inputs: external input (N, input_size) or None. signals: those asked for, with their shapes.

    memory: what it takes its tensors from.
    """

    cell: Cell
    plan: Plan
    inputs: Tensor | None
    noise: Noise
    signals: Mapping[str, tuple[int, ...]]
    memory: Memory

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of a row of every buffer."""
        return {**self.cell.fields, **self.signals}

    def of(self, chunk: Chunk) -> tuple[Tensor | None, dict[str, Tensor]]:
        """A chunk's own external input and noise."""
        inputs = None if self.inputs is None else self.inputs.index_select(0, chunk.nodes)
        return inputs, {name: factors.index_select(0, chunk.nodes) for name, factors in self.noise.items()}


class Stepper(Protocol):
    """A way to take a cell's steps, and to carry gradients back through them.

    parameters: what it has gradients of. `ahead` fills the buffers chunk by chunk, and keeps what `back` will need if it is
    recording. `back` adds to the gradients of the buffers, in reverse, and of external input where they are wanted. `settle`
    returns those of the parameters, None of those that were not used.
    """

    parameters: list[Tensor]

    def ahead(self, buffers: Buffers, recording: bool) -> None: ...

    def back(self, buffers: Buffers, gradients: Buffers, of_inputs: Tensor | None) -> None: ...

    def settle(self) -> list[Tensor | None]: ...


def sweep(work: Work, stepper: Stepper, leaves: Tensor) -> Buffers:
    """The rows of every buffer, from the leaves' h (L, H)."""
    recording = torch.is_grad_enabled()
    names = list(work.shapes)
    return dict(zip(names, _Sweep.apply(work, stepper, recording, leaves, work.inputs, *stepper.parameters), strict=True))


class _Sweep(torch.autograd.Function):
    """(leaves' h, external input, parameters) -> rows of every buffer."""

    @staticmethod
    def forward(
        ctx: Any, work: Work, stepper: Stepper, recording: bool, leaves: Tensor, inputs: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        buffers = _empty_buffers(work, leaves)
        stepper.ahead(buffers, recording)
        ctx.work, ctx.stepper, ctx.leaves = work, stepper, len(leaves)
        ctx.wants_inputs = inputs is not None and inputs.requires_grad and bool(work.plan.chunks)
        read = [] if inputs is None else [inputs]
        # so that torch tells who changes them before the way back, which reads them again
        ctx.save_for_backward(*buffers.values(), *read, *work.noise.values(), *stepper.parameters)
        ctx.set_materialize_grads(False)
        return tuple(buffers.values())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *arriving: Tensor | None) -> tuple[Tensor | None, ...]:
        work, stepper = ctx.work, ctx.stepper
        buffers = dict(zip(work.shapes, ctx.saved_tensors, strict=False))
        mark = work.memory.mark()
        gradients = {name: work.memory.empty(*buffer.shape) for name, buffer in buffers.items()}
        for own, gradient in zip(gradients.values(), arriving, strict=True):
            own.zero_() if gradient is None else own.copy_(gradient)
        of_inputs = torch.zeros_like(work.inputs) if ctx.wants_inputs else None
        stepper.back(buffers, gradients, of_inputs)
        of_parameters = stepper.settle()
        of_leaves = gradients["h"][: ctx.leaves].clone()
        work.memory.back_to(mark)
        return None, None, None, of_leaves, of_inputs, *of_parameters


def _empty_buffers(work: Work, leaves: Tensor) -> Buffers:
    """Buffers of all rows with the leaves, and the row of nothing, in place."""
    count = len(leaves)
    buffers = {name: work.memory.empty(work.plan.rows, *shape) for name, shape in work.shapes.items()}
    for name, buffer in buffers.items():
        if name in work.signals:  # of which some steps have none
            buffer.zero_()
        own = buffer.narrow(0, 0, count)
        own.copy_(leaves) if name == "h" else own.fill_(work.cell.empty.get(name, 0.0))
        buffer.select(0, -1).zero_()
    return buffers
