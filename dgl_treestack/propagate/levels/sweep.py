"""The sweep over the levels of a plan and back, as one function for autograd.

Forward, chunk by chunk: children's rows are gathered from the buffers, the cell takes its step, the new rows are written.
Backward, the same chunks in reverse: a chunk's rows of the gradient buffers go through its step, what comes out is added to the
children's rows. A step is recorded for itself, so nothing is held but what its own gradient needs.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dgl_treestack.cells import Cell
from dgl_treestack.propagate.levels.plan import Chunk, Plan
from dgl_treestack.propagate.levels.products import Ledger, SegmentOps
from dgl_treestack.propagate.noise import Noise
from dgl_treestack.propagate.promise import check_state

Buffers = dict[str, Tensor]


class Step(NamedTuple):
    """A recorded step of the cell: what it read (children's fields, perhaps inputs) and what came out."""

    read: list[Tensor]
    outputs: Buffers


class Work:
    """One sweep: what is to be computed, and the steps it recorded, none where gradients are switched off.

    signals: shape of every signal that was asked for. names: of the buffers, fields before signals.
    """

    def __init__(self, cell: Cell, plan: Plan, inputs: Tensor | None, noise: Noise, signals: Mapping[str, tuple[int, ...]]):
        self.cell, self.plan, self.inputs, self.noise, self.signals = cell, plan, inputs, noise, signals
        self.names = [*cell.fields, *signals]
        self.parameters = _used(cell, plan)
        self.recording = torch.is_grad_enabled()
        self.steps: list[Step] = []
        self.ledger, self.anchor = Ledger(), torch.empty(0, requires_grad=True)

    def run(self, buffers: Buffers) -> None:
        """Fill the rows of all chunks."""
        recording = self.recording
        for chunk in self.plan.chunks:
            children = self._children(chunk, buffers, recording)
            inputs = None if self.inputs is None else self.inputs[chunk.nodes]
            if recording and inputs is not None and self.inputs is not None and self.inputs.requires_grad:
                inputs = inputs.detach().requires_grad_()
            noise = {name: factors[chunk.nodes] for name, factors in self.noise.items()}
            with torch.set_grad_enabled(recording):
                state, signals = self.cell.node(self._ops(chunk), children, inputs, noise)
            check_state(state, self.cell, chunk.stop - chunk.start)
            outputs = {**state, **{name: signals[name] for name in self.signals if name in signals}}
            for name, value in outputs.items():
                buffers[name][chunk.start : chunk.stop, : value.shape[1]] = value.detach()
            if recording:
                kept = [name for name, value in outputs.items() if value.requires_grad]
                read = [*children.values(), *([inputs] if inputs is not None and inputs.requires_grad else [])]
                self.steps.append(Step(read, {name: outputs[name] for name in kept}))

    def _ops(self, chunk: Chunk) -> SegmentOps:
        return SegmentOps(self.cell, chunk.segments, self.anchor, self.ledger)

    def _children(self, chunk: Chunk, buffers: Buffers, recording: bool) -> Buffers:
        count = chunk.stop - chunk.start
        found = {}
        for name in self.cell.fields:
            rows = buffers[name].index_select(0, chunk.children).unflatten(0, (count, chunk.arity))
            found[name] = rows.requires_grad_(recording)
        return found

    def back(self, gradients: Buffers, of_inputs: Tensor | None) -> list[Tensor | None]:
        """Carry gradients of all rows down to the leaves; returns those of `parameters`."""
        self.ledger.entries.clear()
        for chunk, step in zip(reversed(self.plan.chunks), reversed(self.steps), strict=True):
            arriving = [gradients[name][chunk.start : chunk.stop, : v.shape[1]] for name, v in step.outputs.items()]
            got = torch.autograd.grad([*step.outputs.values()], step.read, arriving, allow_unused=True, retain_graph=True)
            for name, gradient in zip(self.cell.fields, got, strict=False):
                if gradient is not None:
                    gradients[name].index_add_(0, chunk.children, gradient.flatten(0, 1))
            if of_inputs is not None and got[-1] is not None:
                of_inputs.index_add_(0, chunk.nodes, got[-1])
        return [self.ledger.entries.get(id(parameter)) for parameter in self.parameters]


class Sweep(torch.autograd.Function):
    """(leaves' h, external inputs, parameters) -> rows of every buffer."""

    @staticmethod
    def forward(ctx: Any, work: Work, leaves: Tensor, inputs: Tensor | None, *parameters: Tensor) -> tuple[Tensor, ...]:
        buffers = empty_buffers(work, leaves)
        work.run(buffers)
        ctx.work, ctx.leaves, ctx.wants_inputs = work, len(leaves), inputs is not None and inputs.requires_grad
        ctx.set_materialize_grads(False)
        return tuple(buffers[name] for name in work.names)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *arriving: Tensor | None) -> tuple[Tensor | None, ...]:
        work: Work = ctx.work
        like = next(work.cell.parameters())
        rows = len(work.plan.row)
        gradients = {}
        for name, gradient in zip(work.names, arriving, strict=True):
            shape = work.cell.fields.get(name) or work.signals[name]
            gradients[name] = like.new_zeros(rows, *shape) if gradient is None else gradient.clone()
        of_inputs = torch.zeros_like(work.inputs) if ctx.wants_inputs and work.inputs is not None else None
        parameters = work.back(gradients, of_inputs)
        return None, gradients["h"][: ctx.leaves], of_inputs, *parameters


def empty_buffers(work: Work, leaves: Tensor) -> Buffers:
    """Buffers of all rows with the leaves in place."""
    rows, count = len(work.plan.row), len(leaves)
    buffers = {name: leaves.new_zeros(rows, *shape) for name, shape in (*work.cell.fields.items(), *work.signals.items())}
    buffers["h"][:count] = leaves.detach()
    for name, value in work.cell.empty.items():
        buffers[name][:count] = value
    return buffers


def _used(cell: Cell, plan: Plan) -> list[Tensor]:
    operators = dict.fromkeys(segment.operator for chunk in plan.chunks for segment in chunk.segments)
    pairs = (maps.pair(operator) for operator in operators for maps in cell.products.values())  # type: ignore[operator]
    return list(dict.fromkeys(parameter for pair in pairs for parameter in pair if parameter is not None))
