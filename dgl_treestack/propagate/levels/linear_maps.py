"""Linear maps of eager steps: a product per segment of a frontier.

Every map writes its rows of one result. Weight gradients of few rows are deferred: one matrix product per operator computes
them for many frontiers.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from dgl_treestack.cells import OperatorLinear
from dgl_treestack.propagate.levels.plan import Frontier
from dgl_treestack.propagate.levels.sweep import Work

Key = tuple[str, str, str]  # "weight" or "bias", product, key of the operator in the product


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
        maps, sizes = self._segments(product, frontier, x)
        result = self.arena.empty(math.prod(x.shape[:-1]), maps[0].outputs)
        for segment_map, segment, out in zip(maps, _split(x.flatten(0, -2), sizes), _split(result, sizes), strict=True):
            segment_map.forward(segment, out)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def backward(self, product: str, frontier: Frontier, x: Tensor, gradient_y: Tensor) -> Tensor:
        """Return the gradient of x; those of the parameters are accumulated in the maps."""
        maps, sizes = self._segments(product, frontier, x)
        count, inputs = math.prod(x.shape[:-1]), maps[0].inputs
        rows, gradient_rows = x.flatten(0, -2), gradient_y.flatten(0, -2)
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
                self._compute_deferred_of(product)
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

    def take_gradients(self) -> dict[Key, Tensor]:
        """Return the gradients of all parameters that were used, and reset them."""
        self.compute_deferred()
        gradients: dict[Key, Tensor] = {}
        for key, linear_map in self.maps.items():
            pairs = ("weight", linear_map.weight_gradient), ("bias", linear_map.bias_gradient)
            gradients.update(((kind, *key), gradient) for kind, gradient in pairs if gradient is not None)
            linear_map.weight_gradient = linear_map.bias_gradient = None
        return gradients

    def compute_deferred(self) -> None:
        """Compute all deferred weight gradients."""
        for product in list(self.deferred):
            self._compute_deferred_of(product)

    def _compute_deferred_of(self, product: str) -> None:
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


def _split(rows: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    return (rows,) if len(sizes) == 1 else torch.split_with_sizes(rows, sizes)
