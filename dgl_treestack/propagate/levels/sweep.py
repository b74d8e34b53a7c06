"""The sweep over the frontiers of a plan, forward and backward, as one autograd function.

Forward, frontier by frontier: the rows of the children are gathered from the buffers, the cell takes its step, the new rows are
written. Backward, in reverse order: the gradient of a frontier's rows goes through its step and is added to the gradients of
the children's rows. A `Stepper` computes the steps and their gradients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dgl_treestack.cells import Cell
from dgl_treestack.propagate.levels.arena import Arena
from dgl_treestack.propagate.levels.plan import Plan
from dgl_treestack.propagate.noise import Noise

Buffers = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Work:
    """The input of a sweep. inputs: external input (N, input_size) or None. signals: shape of every signal that is asked for.

    arena: the memory of the sweep.
    """

    cell: Cell
    plan: Plan
    inputs: Tensor | None
    noise: Noise
    signals: Mapping[str, tuple[int, ...]]
    arena: Arena

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of a row of every buffer."""
        return {**self.cell.fields, **self.signals}


class Stepper(Protocol):
    """Computes a cell's steps and their gradients.

    parameters: what `settle` returns gradients of. `forward` fills the buffers, and saves what `backward` needs if `recording`.
    `backward` adds to the gradients of the buffers, and to those of external input unless None. `settle` returns the gradients
    of the parameters, None for those that were not used.
    """

    parameters: list[Tensor]

    def forward(self, buffers: Buffers, recording: bool) -> None: ...

    def backward(self, buffers: Buffers, gradients: Buffers, input_gradient: Tensor | None) -> None: ...

    def settle(self) -> list[Tensor | None]: ...


def sweep(work: Work, stepper: Stepper, leaves: Tensor) -> Buffers:
    """The rows of every buffer, from the leaves' h (L, H)."""
    recording = torch.is_grad_enabled()
    buffers = _Sweep.apply(work, stepper, recording, leaves, work.inputs, *stepper.parameters)
    return dict(zip(work.shapes, buffers, strict=True))


class _Sweep(torch.autograd.Function):
    """(leaves' h, external input, parameters) -> rows of every buffer."""

    @staticmethod
    def forward(
        ctx: Any, work: Work, stepper: Stepper, recording: bool, leaves: Tensor, inputs: Tensor | None, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        buffers = {name: work.arena.empty(work.plan.rows, *shape) for name, shape in work.shapes.items()}
        for name, buffer in buffers.items():
            if name in work.signals:  # some steps lack some signals
                buffer.zero_()
            of_leaves = buffer.narrow(0, 0, len(leaves))
            of_leaves.copy_(leaves) if name == "h" else of_leaves.fill_(work.cell.empty.get(name, 0.0))
            buffer.select(0, -1).zero_()
        stepper.forward(buffers, recording)
        ctx.work, ctx.stepper, ctx.leaves = work, stepper, len(leaves)
        ctx.wants_inputs = inputs is not None and inputs.requires_grad and bool(work.plan.frontiers)
        # `backward` reads these again: saved, so that torch reports a change in between
        read = [] if inputs is None else [inputs]
        ctx.save_for_backward(*buffers.values(), *read, *work.noise.values(), *stepper.parameters)
        ctx.set_materialize_grads(False)
        return tuple(buffers.values())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *arriving: Tensor | None) -> tuple[Tensor | None, ...]:
        work, stepper = ctx.work, ctx.stepper
        buffers = dict(zip(work.shapes, ctx.saved_tensors, strict=False))
        mark = work.arena.mark()
        gradients = {name: work.arena.empty(*buffer.shape) for name, buffer in buffers.items()}
        for gradient, output_gradient in zip(gradients.values(), arriving, strict=True):
            gradient.zero_() if output_gradient is None else gradient.copy_(output_gradient)
        input_gradient = torch.zeros_like(work.inputs) if ctx.wants_inputs else None
        stepper.backward(buffers, gradients, input_gradient)
        parameter_gradients = stepper.settle()
        leaf_gradient = gradients["h"][: ctx.leaves].clone()
        work.arena.reset_to(mark)
        return None, None, None, leaf_gradient, input_gradient, *parameter_gradients
