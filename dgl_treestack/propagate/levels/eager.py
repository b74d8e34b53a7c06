"""Steps in Python: `Cell.node`, recorded by autograd frontier by frontier, for any cell and signal, on any device.

For a large batch no records are kept, and backward recomputes every step (gradient checkpointing, Chen et al. 2016,
https://arxiv.org/abs/1604.06174).

The linear maps of a frontier are one autograd function; autograd alone would record one node per map and add up weight
gradients once per use.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dgl_treestack.cells.memory import stack
from dgl_treestack.propagate.levels.linear_maps import LinearMaps
from dgl_treestack.propagate.levels.plan import Frontier
from dgl_treestack.propagate.levels.sweep import Buffers, Work

# Inputs of a step (the children's fields, perhaps external input) and its outputs.
StepRecord = tuple[list[Tensor], Buffers]


class EagerStepper:
    """A `Stepper` that runs `Cell.node` for every frontier."""

    maps_type = LinearMaps

    def __init__(self, work: Work):
        self.work, self.maps = work, self.maps_type(work)
        self.others = [parameter for parameter in work.cell.other_parameters() if parameter.requires_grad]
        self.other_gradients: list[Tensor | None] = [None] * len(self.others)
        self.parameters = [*self.maps.parameters, *self.others]
        self.anchor = torch.empty(0, requires_grad=True)  # makes autograd record a linear map of any x
        self.records: list[StepRecord] = []

    def forward(self, buffers: Buffers, recording: bool) -> None:
        arena = self.work.arena
        # 65,536 equations: 9.1 GB with records, 2.3 without, for a third more time.
        keep_records = recording and self.work.plan.rows <= self.work.arena.options.recorded_rows
        for frontier in self.work.plan.frontiers:
            mark = arena.mark()
            inputs, outputs = self._step(frontier, buffers, keep_records)
            for name, value in outputs.items():
                buffers[name][frontier.start : frontier.stop, : value.shape[1]] = value.detach()
            if keep_records:
                self.records.append((inputs, outputs))
            else:
                arena.reset_to(mark)

    def backward(self, buffers: Buffers, gradients: Buffers, input_gradient: Tensor | None) -> None:
        arena = self.work.arena
        self.take_gradients()  # discards those of a failed backward pass
        for i in reversed(range(len(self.work.plan.frontiers))):
            frontier, mark = self.work.plan.frontiers[i], arena.mark()
            self.collect(i, gradients)
            inputs, outputs = self.records[i] if self.records else self._step(frontier, buffers, recording=True)
            outputs = {name: value for name, value in outputs.items() if value.requires_grad}
            output_gradients = [gradients[name][frontier.start : frontier.stop, : v.shape[1]] for name, v in outputs.items()]
            # The graph of a step is kept, because a caller may run backward twice.
            computed = torch.autograd.grad(
                [*outputs.values()], [*inputs, *self.others], output_gradients, allow_unused=True, retain_graph=True
            )
            input_gradients = computed[: len(inputs)]
            for j, gradient in enumerate(computed[len(inputs) :]):
                total = self.other_gradients[j]
                self.other_gradients[j] = total if gradient is None else gradient if total is None else total + gradient
            for name, gradient in zip(self.work.cell.fields, input_gradients, strict=False):
                if gradient is not None:
                    self.add_to_children(i, gradients, name, gradient)
            if input_gradient is not None and input_gradients[-1] is not None:
                input_gradient.index_add_(0, frontier.nodes, input_gradients[-1])
            # Before memory is reused: deferred rows may be gradients of another map's x, in the arena. Six models had wrong
            # gradients in large batches when this was missing, and no test had tensors large enough to see it.
            if not self.records:
                self.maps.compute_deferred(*self.maps.deferred)
                arena.reset_to(mark)
        self.collect(-1, gradients)

    def add_to_children(self, i: int, gradients: Buffers, name: str, gradient: Tensor) -> None:
        """Add a gradient (n, A, *shape) of frontier i to those of the children's rows."""
        rows, values = self.work.plan.frontiers[i].children, gradient.flatten(0, 1)
        if values.is_cuda:  # `index_add_` adds in any order there: two trainings would differ
            gradients[name].index_put_((rows,), values, accumulate=True)
        else:
            gradients[name].index_add_(0, rows, values)

    def collect(self, i: int, gradients: Buffers) -> None:
        """Called before the gradients of the rows of frontier i are read, with -1 for the leaves."""

    def take_gradients(self) -> list[Tensor | None]:
        other_gradients, self.other_gradients = self.other_gradients, [None] * len(self.others)
        return self.maps.take_gradients() + other_gradients

    def _step(self, frontier: Frontier, buffers: Buffers, recording: bool) -> StepRecord:
        work, count = self.work, frontier.stop - frontier.start
        children = {
            name: buffers[name]
            .index_select(0, frontier.children)
            .unflatten(0, (count, frontier.arity))
            .requires_grad_(recording)
            for name in work.cell.fields
        }
        inputs = None if work.inputs is None else work.inputs.index_select(0, frontier.nodes)
        noise = {name: factors.index_select(0, frontier.nodes) for name, factors in work.noise.items()}
        if inputs is not None and recording:
            inputs = inputs.detach().requires_grad_()
        # Fewer operations for a GPU only: on a CPU they cost more than they save (18.1 ms in place of 15.3 at batch 256).
        with torch.set_grad_enabled(recording), stack.limited(few_operations=self.maps.is_grouped):
            result = work.cell.node(_Ops(self, frontier), children, inputs, noise)
        state, signals = work.cell.checked(result, count)
        outputs = {**state, **{name: signals[name] for name in work.shapes if name in signals}}
        return [*children.values(), *([] if inputs is None else [inputs])], outputs


class _Ops:
    """`Ops` of a frontier: the rows of every segment go through the map of their operator."""

    def __init__(self, stepper: EagerStepper, frontier: Frontier):
        self.stepper, self.frontier = stepper, frontier

    def linear(self, product: str, x: Tensor) -> Tensor:
        return _Linear.apply(x, self.stepper.anchor, self.stepper.maps, product, self.frontier)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, maps: LinearMaps, product: str, frontier: Frontier) -> Tensor:
        ctx.save_for_backward(x)
        ctx.maps, ctx.product, ctx.frontier = maps, product, frontier
        return maps.forward(product, frontier, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_y: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return ctx.maps.backward(ctx.product, ctx.frontier, x, gradient_y), None, None, None, None
