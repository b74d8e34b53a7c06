"""Steps in Python: `Cell.node`, recorded by autograd frontier by frontier, for any cell and signal, on any device.

For a large batch no records are kept, and backward recomputes every step (gradient checkpointing, Chen et al. 2016,
https://arxiv.org/abs/1604.06174).

The linear maps of a frontier are one autograd function that loops over segments; autograd alone would record one node per map
and add up weight gradients once per use. Every map writes its rows of one result. Weight gradients of few rows are deferred:
one matrix product per operator computes them for many frontiers.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dgl_treestack.cells import OperatorLinear
from dgl_treestack.propagate.levels.plan import Frontier
from dgl_treestack.propagate.levels.sweep import Buffers, Work

Key = tuple[str, str, str]  # "weight" or "bias", product, key of the operator in the product


class Record(NamedTuple):
    """Inputs of a step (the children's fields, perhaps external input) and its outputs."""

    inputs: list[Tensor]
    outputs: Buffers


class EagerStepper:
    """A `Stepper` that runs `Cell.node` for every frontier."""

    def __init__(self, work: Work):
        self.work, self.maps = work, LinearMaps(work)
        self.parameters = list(self.maps.parameters.values())
        self.anchor = torch.empty(0, requires_grad=True)  # makes autograd record a linear map of any x
        self.records: list[Record] = []

    def forward(self, buffers: Buffers, recording: bool) -> None:
        arena = self.work.arena
        keep_records = recording and self.work.plan.rows <= self.work.options.recorded_rows
        for frontier in self.work.plan.frontiers:
            mark = arena.mark()
            record = self._step(frontier, buffers, keep_records)
            for name, value in record.outputs.items():
                buffers[name][frontier.start : frontier.stop, : value.shape[1]] = value.detach()
            if keep_records:
                self.records.append(record)
            else:
                arena.reset_to(mark)

    def backward(self, buffers: Buffers, gradients: Buffers, input_gradient: Tensor | None) -> None:
        arena = self.work.arena
        self.maps.settle()  # discards the gradients of a failed backward pass
        for i in reversed(range(len(self.work.plan.frontiers))):
            frontier, mark = self.work.plan.frontiers[i], arena.mark()
            record = self.records[i] if self.records else self._step(frontier, buffers, recording=True)
            outputs = {name: value for name, value in record.outputs.items() if value.requires_grad}
            output_gradients = [gradients[name][frontier.start : frontier.stop, : v.shape[1]] for name, v in outputs.items()]
            input_gradients = torch.autograd.grad(
                [*outputs.values()], record.inputs, output_gradients, allow_unused=True, retain_graph=True
            )
            for name, gradient in zip(self.work.cell.fields, input_gradients, strict=False):
                if gradient is not None:
                    gradients[name].index_add_(0, frontier.children, gradient.flatten(0, 1))
            if input_gradient is not None and input_gradients[-1] is not None:
                input_gradient.index_add_(0, frontier.nodes, input_gradients[-1])
            if not self.records:  # deferred rows may be gradients of another map's x, in the arena's memory
                self.maps.settle_deferred()
                arena.reset_to(mark)

    def settle(self) -> list[Tensor | None]:
        gradients = self.maps.settle()
        return [gradients.pop(key, None) for key in self.maps.parameters]  # no second reference: autograd would copy

    def _step(self, frontier: Frontier, buffers: Buffers, recording: bool) -> Record:
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
        with torch.set_grad_enabled(recording):
            state, signals = work.cell.node(_Ops(self, frontier), children, inputs, noise)
        work.cell.check_state(state, count)
        outputs = {**state, **{name: signals[name] for name in work.signals if name in signals}}
        return Record([*children.values(), *([] if inputs is None else [inputs])], outputs)


class _Ops:
    """`Ops` of a frontier: the rows of every segment go through the map of their operator."""

    def __init__(self, stepper: EagerStepper, frontier: Frontier):
        self.stepper, self.frontier = stepper, frontier

    def linear(self, product: str, x: Tensor) -> Tensor:
        return _Linear.apply(x, self.stepper.anchor, self.stepper.maps, product, self.frontier)


class Map:
    """Weight (out, in) and bias (out,), either may be absent, and their gradients so far."""

    def __init__(self, weight: Tensor | None, bias: Tensor | None):
        self.weight, self.bias = weight, bias
        self.transposed = None if weight is None else weight.t()
        self.inputs = 0 if weight is None else weight.shape[1]
        self.outputs = len(cast(Tensor, bias if weight is None else weight))
        self.weight_gradient: Tensor | None = None
        self.bias_gradient: Tensor | None = None

    def forward(self, x: Tensor, out: Tensor) -> None:
        if self.transposed is None:
            out.copy_(cast(Tensor, self.bias))
        elif self.bias is None:
            torch.mm(x, self.transposed, out=out)
        else:
            torch.addmm(self.bias, x, self.transposed, out=out)

    def accumulate(self, x: Tensor, gradient_y: Tensor) -> None:
        """Add to the gradients of weight and bias."""
        if self.weight is not None:
            rows = gradient_y.t()
            self.weight_gradient = rows @ x if self.weight_gradient is None else self.weight_gradient.addmm_(rows, x)
        if self.bias is not None:
            total = gradient_y.sum(0)
            self.bias_gradient = total if self.bias_gradient is None else self.bias_gradient.add_(total)


class Deferred(NamedTuple):
    """Rows of x and of the gradient of y, from which the gradients of the maps are still to be computed."""

    maps: list[Map]
    x: Sequence[Tensor]
    gradient_y: Sequence[Tensor]


class LinearMaps:
    """The linear maps of a cell during one sweep, for the operators that occur, and the gradients of their parameters."""

    def __init__(self, work: Work):
        self.cell, self.arena, self.max_deferred = work.cell, work.arena, work.options.deferred_rows
        self.parameters: dict[Key, Tensor] = {}
        for operator in work.plan.operators:
            for product, linear in work.cell.products.items():
                linear = cast(OperatorLinear, linear)
                for kind, parameter in zip(("weight", "bias"), linear.pair(operator), strict=True):
                    if parameter is not None:
                        self.parameters[kind, product, linear.keys[operator]] = parameter
        self.maps: dict[tuple[str, str], Map] = {}  # by product and the operator's key in it
        self.maps_of_frontier: dict[tuple[str, int], list[Map]] = {}  # by product and first row
        self.deferred: dict[str, list[Deferred]] = {}
        self.deferred_rows: dict[str, int] = {}

    def forward(self, product: str, frontier: Frontier, x: Tensor) -> Tensor:
        """Apply weight and bias of every row's operator: (n, ..., in) -> (n, ..., out)."""
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        maps, sizes = self._segments(product, frontier, x)
        result = self.arena.empty(math.prod(x.shape[:-1]), maps[0].outputs)
        for segment_map, segment, out in zip(maps, _split(rows, sizes), _split(result, sizes), strict=True):
            segment_map.forward(segment, out)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def backward(self, product: str, frontier: Frontier, x: Tensor, gradient_y: Tensor) -> Tensor:
        """Return the gradient of x; those of the parameters are accumulated in the maps."""
        maps, sizes = self._segments(product, frontier, x)
        count, inputs = math.prod(x.shape[:-1]), maps[0].inputs
        rows, gradient_rows = x.reshape(count, x.shape[-1]), gradient_y.reshape(count, gradient_y.shape[-1])
        gradient_x = self.arena.empty(count, inputs)
        if inputs:
            for segment_map, segment, out in zip(maps, _split(gradient_rows, sizes), _split(gradient_x, sizes), strict=True):
                torch.mm(segment, cast(Tensor, segment_map.weight), out=out)
        if len(maps) == 1 and count > self.max_deferred // 8:  # now, while the rows are in the processor's cache
            maps[0].accumulate(rows, gradient_rows)
        else:
            self.deferred.setdefault(product, []).append(Deferred(maps, _split(rows, sizes), _split(gradient_rows, sizes)))
            self.deferred_rows[product] = self.deferred_rows.get(product, 0) + count
            if self.deferred_rows[product] > self.max_deferred:
                self._settle(product)
        return gradient_x.view(*x.shape[:-1], inputs)

    def _segments(self, product: str, frontier: Frontier, x: Tensor) -> tuple[list[Map], Sequence[int]]:
        """The map and the number of rows of x of every segment, or of all rows if operators share a map."""
        linear = cast(OperatorLinear, self.cell.products[product])
        shared = linear.share == "all"
        if (product, frontier.start) not in self.maps_of_frontier:
            maps = []
            for operator in frontier.operators[:1] if shared else frontier.operators:
                key = product, linear.keys[operator]
                if key not in self.maps:
                    self.maps[key] = Map(*(None if tensor is None else tensor.detach() for tensor in linear.pair(operator)))
                maps.append(self.maps[key])
            self.maps_of_frontier[product, frontier.start] = maps
        repeats = math.prod(x.shape[1:-1])
        sizes = (frontier.stop - frontier.start,) if shared else frontier.sizes
        return self.maps_of_frontier[product, frontier.start], [size * repeats for size in sizes] if repeats > 1 else sizes

    def settle(self) -> dict[Key, Tensor]:
        """Return the gradients of all parameters that were used, and reset them."""
        self.settle_deferred()
        gradients: dict[Key, Tensor] = {}
        for key, linear_map in self.maps.items():
            pairs = ("weight", linear_map.weight_gradient), ("bias", linear_map.bias_gradient)
            gradients.update(((kind, *key), gradient) for kind, gradient in pairs if gradient is not None)
            linear_map.weight_gradient = linear_map.bias_gradient = None
        return gradients

    def settle_deferred(self) -> None:
        """Compute all deferred weight gradients."""
        for product in list(self.deferred):
            self._settle(product)

    def _settle(self, product: str) -> None:
        """Compute the deferred weight gradients of a product, map by map."""
        self.deferred_rows[product] = 0
        rows_by_map: dict[Map, tuple[list[Tensor], list[Tensor]]] = {}
        for deferred in self.deferred.pop(product):
            for linear_map, x, gradient_y in zip(*deferred, strict=True):
                xs, gradients = rows_by_map.setdefault(linear_map, ([], []))
                xs.append(x)
                gradients.append(gradient_y)
        for linear_map, columns in rows_by_map.items():
            linear_map.accumulate(*(rows[0] if len(rows) == 1 else torch.cat(rows) for rows in columns))


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


def _split(rows: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    return (rows,) if len(sizes) == 1 else torch.split_with_sizes(rows, sizes)
