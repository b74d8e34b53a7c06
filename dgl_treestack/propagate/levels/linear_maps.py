"""Linear maps of eager steps, in two ways.

By segment, on a CPU: every operator's map writes its rows of one result. Weight gradients of few rows are deferred: one matrix
product per operator computes them for many frontiers.

Grouped, on a GPU: the maps of a frontier's operators are one batched product. A GPU waits for the CPU to launch products of few
rows, so that one large product is faster than many small ones, although it computes padding. A frontier's segments are copied
to places of equal length, one per operator; weight gradients are computed in the same way, for many frontiers at once.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.cells import OperatorLinear
from dgl_treestack.propagate.levels.plan import Frontier
from dgl_treestack.propagate.levels.sweep import Work

# Grouping saves a third of the operations that a GPU is given: a training step of Tree-SMU has 1,111 in place of 1,731
# at batch 1,024, 961 in place of 1,165 at 32.
PADDED_ROWS = 2**13  # a grouped product may always have so many rows with padding,
PADDED_TIMES = 4  # or so many times the rows without it; a larger one is computed by segment
GROUPED_ROWS = 2**13  # of a product whose weight gradients are deferred, in grouped maps


class Stack:
    """The maps of a product whose shapes are equal: weight (K, out, in) and bias (K, out), either may be None.

    gradients: of weight and bias so far. used: the rows with a gradient. chosen: the rows of the batch's operators, sorted.
    """

    def __init__(self, linear: OperatorLinear, suffix: str, operators: Sequence[str]):
        self.linear, self.keys = linear, linear.stacks[suffix]
        self.parameters = linear.stack(suffix)
        self.weight, self.bias = (None if stack is None else stack.detach() for stack in self.parameters)
        self.inputs = 0 if self.weight is None else self.weight.shape[2]
        self.outputs, self.device = next((s.shape[1], s.device) for s in (self.weight, self.bias) if s is not None)
        self.weights, self.biases = (None if stack is None else stack.unbind() for stack in (self.weight, self.bias))
        self.gradients: list[Tensor | None] = [None, None]
        self.used = set[int]()
        places = [linear.places[linear.keys[operator]] for operator in operators]
        self.chosen = sorted({row for suffix_of_row, row in places if suffix_of_row == suffix})

    @cached_property
    def of_batch(self) -> tuple[Tensor | None, Tensor | None]:
        """Weights and biases of the chosen rows."""
        if len(self.chosen) == len(self.keys):
            return self.weight, self.bias
        rows = torch.from_numpy(np.array(self.chosen)).to(self.device, non_blocking=True)
        weight, bias = (None if stack is None else stack.index_select(0, rows) for stack in (self.weight, self.bias))
        return weight, bias

    def forward(self, row: int, x: Tensor, out: Tensor) -> None:
        if self.weights is None:
            out.copy_(cast(Sequence[Tensor], self.biases)[row])
        elif self.biases is None:
            torch.mm(x, self.weights[row].t(), out=out)
        else:
            torch.addmm(self.biases[row], x, self.weights[row].t(), out=out)

    def gradient(self, i: int) -> Tensor:
        """The gradient of the weight, 0, or the bias, 1."""
        gradient = self.gradients[i]
        if gradient is None:
            gradient = self.gradients[i] = torch.zeros_like(cast(Tensor, (self.weight, self.bias)[i]))
        return gradient

    def accumulate(self, row: int, x: Tensor, gradient_y: Tensor) -> None:
        """Add to the gradients of a row."""
        self.used.add(row)
        if self.weight is not None:
            self.gradient(0)[row].addmm_(gradient_y.t(), x)
        if self.bias is not None:
            self.gradient(1)[row].add_(gradient_y.sum(0))

    def take_gradients(self) -> list[Tensor | None]:
        """Return the gradients of weight and bias, mark the rows in the product as used, and begin anew."""
        gradients, self.gradients = self.gradients, [None, None]
        self.linear.used.update(self.keys[row] for row in self.used)
        self.used = set()
        return gradients


class Places(NamedTuple):
    """Where n rows, sorted by map, are in a tensor (maps, length, ...).

    low, high: the range of the stack's chosen maps. row_of_place: (maps * length,), row 0 where there is padding.
    place_of_row: (n,).
    """

    low: int
    high: int
    row_of_place: Tensor
    place_of_row: Tensor


class Deferred(NamedTuple):
    """Rows of x and of the gradient of y, in segments, of which gradients of the maps are still to be computed.

    rows, sizes: of every segment, its map as a row of the stack and its number of rows.
    """

    stack: Stack
    rows: Sequence[int]
    sizes: Sequence[int]
    x: Tensor
    gradient_y: Tensor


class LinearMaps:
    """The linear maps of a cell during one sweep, and the gradients of their parameters. is_grouped: see above."""

    def __init__(self, work: Work, *, is_grouped: bool):
        self.arena, self.is_grouped, self.device = work.arena, is_grouped, work.arena.device
        self.max_deferred = GROUPED_ROWS if is_grouped else work.arena.options.deferred_rows
        self.products = work.cell.products
        self.stacks: dict[tuple[str, str], Stack] = {}  # by product and suffix of its parameters
        for product, module in self.products.items():
            linear = cast(OperatorLinear, module)
            for suffix in dict.fromkeys(linear.places[linear.keys[operator]][0] for operator in work.plan.operators):
                self.stacks[product, suffix] = Stack(linear, suffix, work.plan.operators)
        self.parameters = [p for stack in self.stacks.values() for p in stack.parameters if p is not None]
        self.segments: dict[tuple[str, int], tuple[Stack, list[int]]] = {}  # by product and first row
        self.places: dict[tuple[int, int, Stack], Places | None] = {}  # by first row, rows per node, stack
        # With states written only where they are asked for, deferral took Tree-SMU from 3.7 to 5.5 times the speed of
        # `topo` at batch 32, from 7.0 to 10.1 times at 1,024.
        self.deferred: dict[str, list[Deferred]] = {}
        self.deferred_rows: dict[str, int] = {}

    def forward(self, product: str, frontier: Frontier, x: Tensor) -> Tensor:
        """Apply weight and bias of every row's operator: (n, ..., in) -> (n, ..., out)."""
        stack, maps, sizes = self._segments(product, frontier, x)
        rows = x.flatten(0, -2)
        if places := self._places(frontier, stack, len(rows)):
            weight, bias = (None if part is None else part[places.low : places.high] for part in stack.of_batch)
            if weight is None:
                y = cast(Tensor, bias).unsqueeze(1).expand(-1, len(places.row_of_place) // (places.high - places.low), -1)
            else:
                padded, weight = _padded(rows, places), weight.transpose(1, 2)
                y = torch.bmm(padded, weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), padded, weight)
            return y.reshape(-1, y.shape[-1]).index_select(0, places.place_of_row).view(*x.shape[:-1], -1)
        result = self.arena.empty(math.prod(x.shape[:-1]), stack.outputs)
        # Not `torch.nn.functional.grouped_mm`: 10 % faster than this loop, but rows must be multiples of 16 bytes.
        for row, segment, out in zip(maps, _split(rows, sizes), _split(result, sizes), strict=True):
            stack.forward(row, segment, out)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def backward(self, product: str, frontier: Frontier, x: Tensor, gradient_y: Tensor) -> Tensor:
        """Return the gradient of x; those of the parameters are accumulated in the stacks."""
        stack, maps, sizes = self._segments(product, frontier, x)
        rows, gradient_rows = x.flatten(0, -2), gradient_y.flatten(0, -2)
        places = self._places(frontier, stack, len(rows))
        weight = stack.of_batch[0] if places else stack.weight
        if weight is None or stack.weights is None:
            gradient_x = torch.empty_like(rows)  # of width 0
        elif places:
            products = torch.bmm(_padded(gradient_rows, places), weight[places.low : places.high])
            gradient_x = products.flatten(0, 1).index_select(0, places.place_of_row)
        else:
            gradient_x = self.arena.empty(len(rows), stack.inputs)
            for row, segment, out in zip(maps, _split(gradient_rows, sizes), _split(gradient_x, sizes), strict=True):
                torch.mm(segment, stack.weights[row], out=out)
        if not self.is_grouped and len(maps) == 1 and len(rows) > self.max_deferred // 8:
            stack.accumulate(maps[0], rows, gradient_rows)  # now, while the rows are in the processor's cache
        else:
            self.deferred.setdefault(product, []).append(Deferred(stack, maps, sizes, rows, gradient_rows))
            self.deferred_rows[product] = self.deferred_rows.get(product, 0) + len(rows)
            if self.deferred_rows[product] > self.max_deferred:
                self._compute_deferred_of(product)
        return gradient_x.view_as(x)

    def take_gradients(self) -> list[Tensor | None]:
        """Return the gradients of `parameters`, None for those that were not used, and reset them."""
        self.compute_deferred()
        pairs = [zip(stack.parameters, stack.take_gradients(), strict=True) for stack in self.stacks.values()]
        return [gradient for pair in pairs for parameter, gradient in pair if parameter is not None]

    def compute_deferred(self) -> None:
        """Compute all deferred weight gradients."""
        for product in list(self.deferred):
            self._compute_deferred_of(product)

    def _compute_deferred_of(self, product: str) -> None:
        """Compute the deferred weight gradients of a product."""
        self.deferred_rows[product] = 0
        parts_of_stack: dict[Stack, list[Deferred]] = {}
        for deferred in self.deferred.pop(product):
            parts_of_stack.setdefault(deferred.stack, []).append(deferred)
        for stack, parts in parts_of_stack.items():
            if self.is_grouped and len(stack.keys) > 1:
                self._accumulate_grouped(stack, parts)
                continue
            rows_of_map: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
            for part in parts:
                segments = zip(part.rows, _split(part.x, part.sizes), _split(part.gradient_y, part.sizes), strict=True)
                for row, x, gradient_y in segments:
                    xs, gradients = rows_of_map.setdefault(row, ([], []))
                    xs.append(x)
                    gradients.append(gradient_y)
            for row, columns in rows_of_map.items():
                stack.accumulate(row, *(tensors[0] if len(tensors) == 1 else torch.cat(tensors) for tensors in columns))

    def _accumulate_grouped(self, stack: Stack, parts: list[Deferred]) -> None:
        """Add to the gradients of all maps of a stack in one product."""
        maps = np.concatenate([np.repeat(part.rows, part.sizes) for part in parts])
        order, (used, counts) = maps.argsort(kind="stable"), np.unique(maps, return_counts=True)
        padded = np.full((len(used), counts.max()), len(maps))  # the row of padding
        padded[np.arange(counts.max()) < counts[:, None]] = order
        index = torch.from_numpy(padded.ravel()).to(self.device, non_blocking=True)
        gradient_rows = [part.gradient_y for part in parts]
        zeros = gradient_rows[0].new_zeros(1, gradient_rows[0].shape[1])
        gradient_y = torch.cat([*gradient_rows, zeros]).index_select(0, index).unflatten(0, padded.shape)
        rows = torch.from_numpy(used).to(self.device, non_blocking=True)
        if stack.weight is not None:
            x = torch.cat([*(part.x for part in parts), parts[0].x[:1]]).index_select(0, index).unflatten(0, padded.shape)
            stack.gradient(0).index_add_(0, rows, torch.bmm(gradient_y.transpose(1, 2), x))
        if stack.bias is not None:
            stack.gradient(1).index_add_(0, rows, gradient_y.sum(1))
        stack.used.update(used.tolist())

    def _segments(self, product: str, frontier: Frontier, x: Tensor) -> tuple[Stack, list[int], Sequence[int]]:
        """The stack of a frontier, the row of every segment's map in it, and the number of rows of x of every segment.

        Operators that share a map are one segment.
        """
        linear = cast(OperatorLinear, self.products[product])
        is_shared = linear.share == "all"
        if (product, frontier.start) not in self.segments:
            operators = frontier.operators[:1] if is_shared else frontier.operators
            places = [linear.places[linear.keys[operator]] for operator in operators]
            self.segments[product, frontier.start] = self.stacks[product, places[0][0]], [row for _, row in places]
        repeats = math.prod(x.shape[1:-1])
        sizes = (frontier.stop - frontier.start,) if is_shared else frontier.sizes
        return *self.segments[product, frontier.start], [size * repeats for size in sizes] if repeats > 1 else sizes

    def _places(self, frontier: Frontier, stack: Stack, count: int) -> Places | None:
        """Return where the rows of a frontier are in a grouped product, None if it is computed by segment."""
        if not self.is_grouped or stack.linear.share == "all":
            return None
        repeats = count // (frontier.stop - frontier.start)
        key = frontier.start, repeats, stack
        if key not in self.places:
            rows = [stack.linear.places[stack.linear.keys[operator]][1] for operator in frontier.operators]
            maps, sizes = np.searchsorted(stack.chosen, rows), repeats * np.array(frontier.sizes)
            low, high, length = int(maps[0]), int(maps[-1]) + 1, int(sizes.max())
            self.places[key] = None
            if (high - low) * length <= max(PADDED_ROWS, PADDED_TIMES * count):
                ends = sizes.cumsum()
                place_of_row = np.repeat((maps - low) * length - ends + sizes, sizes) + np.arange(count)
                row_of_place = np.zeros((high - low) * length, dtype=np.int64)
                row_of_place[place_of_row] = np.arange(count)
                indices = torch.from_numpy(np.concatenate([row_of_place, place_of_row])).to(self.device, non_blocking=True)
                self.places[key] = Places(low, high, *indices.split([len(row_of_place), count]))
        return self.places[key]


def _padded(rows: Tensor, places: Places) -> Tensor:
    """Return rows (n, W) at their places: (maps, length, W)."""
    return rows.index_select(0, places.row_of_place).view(places.high - places.low, -1, rows.shape[1])


def _split(rows: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    return (rows,) if len(sizes) == 1 else torch.split_with_sizes(rows, sizes)
