"""Linear maps of eager steps, in two ways.

By segment, on a CPU: every operator's map writes its rows of one result. Weight gradients of few rows are deferred: one matrix
product per operator computes them for many frontiers.

Grouped, on a GPU: the maps of a frontier's operators are one batched product. A GPU waits for the CPU to launch products of few
rows, so that one large product is faster than many small ones, although it computes padding. A frontier's segments are copied
to places of equal length, one per operator; weight gradients are computed in the same way, for many frontiers at once.
"""

import math
from collections import Counter
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
        places = [linear.places[operator] for operator in operators]
        self.chosen = sorted({row for suffix_of_row, row in places if suffix_of_row == suffix})

    @cached_property
    def of_batch(self) -> tuple[Tensor | None, Tensor | None]:
        """Weights and biases of the chosen rows."""
        if len(self.chosen) == len(self.keys):
            return self.weight, self.bias
        rows = torch.from_numpy(np.array(self.chosen)).to(self.device, non_blocking=True)
        weight, bias = (None if stack is None else stack.index_select(0, rows) for stack in (self.weight, self.bias))
        return weight, bias

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


class Segments(NamedTuple):
    """The segments of a frontier's rows of x, sorted by map, and where they are in a grouped product (maps, length, ...).

    maps, sizes: of every segment, its map as a row of the stack and its number of rows; operators that share a map are one
    segment. chosen: of the stack's chosen maps; None for a product that is computed by segment. length: of the places of a map.
    places: the row of every place (maps * length,), 0 where there is padding, and the place of every row (n,).
    """

    stack: Stack
    maps: Sequence[int]
    sizes: Sequence[int]
    chosen: slice | None = None
    length: int = 0
    places: tuple[Tensor, ...] = ()

    def padded(self, rows: Tensor) -> Tensor:
        """Return rows (n, W) at their places: (maps, length, W)."""
        return rows.index_select(0, self.places[0]).view(-1, self.length, rows.shape[1])

    def unpadded(self, places: Tensor) -> Tensor:
        """Return the rows (n, W) at places (maps, length, W)."""
        return places.reshape(-1, places.shape[-1]).index_select(0, self.places[1])


# Rows of x and of the gradient of y, of which gradients of the maps are still to be computed.
Deferred = tuple[Segments, Tensor, Tensor]


class LinearMaps:
    """The linear maps of a cell during one sweep, and the gradients of their parameters. is_grouped: see above."""

    def __init__(self, work: Work):
        self.arena, self.device, self.products = work.arena, work.arena.device, work.cell.products
        self.plan = work.plan
        options = work.arena.options
        self.is_grouped = self.device.type != "cpu" if options.group is None else options.group
        self.max_deferred = GROUPED_ROWS if self.is_grouped else options.deferred_rows
        self.stacks: dict[tuple[str, str], Stack] = {}  # by product and suffix of its parameters
        for product, linear in self.products.items():
            for suffix in dict.fromkeys(linear.places[operator][0] for operator in work.plan.operators):
                self.stacks[product, suffix] = Stack(linear, suffix, work.plan.operators)
        self.parameters = [p for stack in self.stacks.values() for p in stack.parameters if p is not None]
        self.segments: dict[tuple[str, int, int], Segments] = {}  # by product, first row, rows of x per node
        # With states written only where they are asked for, deferral took Tree-SMU from 3.7 to 5.5 times the speed of
        # `topo` at batch 32, from 7.0 to 10.1 times at 1,024.
        self.deferred: dict[str, list[Deferred]] = {}  # by product
        self.deferred_rows = Counter[str]()

    def forward(self, product: str, frontier: Frontier, x: Tensor) -> Tensor:
        """Apply weight and bias of every row's operator: (n, ..., in) -> (n, ..., out)."""
        segments, rows = self._segments(product, frontier, x), x.flatten(0, -2)
        stack = segments.stack
        if segments.chosen is not None:
            weight, bias = (None if part is None else part[segments.chosen] for part in stack.of_batch)
            if weight is None:
                y = cast(Tensor, bias).unsqueeze(1).expand(-1, segments.length, -1)
            else:
                padded, weight = segments.padded(rows), weight.transpose(1, 2)
                y = torch.bmm(padded, weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), padded, weight)
            return segments.unpadded(y).view(*x.shape[:-1], -1)
        result = self.arena.empty(len(rows), stack.outputs)
        # Not `torch.nn.functional.grouped_mm`: 10 % faster than this loop, but rows must be multiples of 16 bytes.
        for row, segment, out in zip(segments.maps, _split(rows, segments), _split(result, segments), strict=True):
            if stack.weights is None:
                out.copy_(cast(Sequence[Tensor], stack.biases)[row])
            elif stack.biases is None:
                torch.mm(segment, stack.weights[row].t(), out=out)
            else:
                torch.addmm(stack.biases[row], segment, stack.weights[row].t(), out=out)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def backward(self, product: str, frontier: Frontier, x: Tensor, gradient_y: Tensor) -> Tensor:
        """Return the gradient of x; those of the parameters are accumulated in the stacks."""
        segments, rows, gradient_rows = self._segments(product, frontier, x), x.flatten(0, -2), gradient_y.flatten(0, -2)
        stack = segments.stack
        weight = stack.weight if segments.chosen is None else stack.of_batch[0]
        if weight is None or stack.weights is None:
            gradient_x = torch.empty_like(rows)  # of width 0
        elif segments.chosen is not None:
            gradient_x = segments.unpadded(torch.bmm(segments.padded(gradient_rows), weight[segments.chosen]))
        else:
            gradient_x = self.arena.empty(len(rows), stack.inputs)
            parts = zip(segments.maps, _split(gradient_rows, segments), _split(gradient_x, segments), strict=True)
            for row, segment, out in parts:
                torch.mm(segment, stack.weights[row], out=out)
        if not self.is_grouped and len(segments.maps) == 1 and len(rows) > self.max_deferred // 8:
            stack.accumulate(segments.maps[0], rows, gradient_rows)  # now, while the rows are in the processor's cache
        else:
            self.deferred.setdefault(product, []).append((segments, rows, gradient_rows))
            self.deferred_rows[product] += len(rows)
            if self.deferred_rows[product] > self.max_deferred:
                self.compute_deferred(product)
        return gradient_x.view_as(x)

    def take_gradients(self) -> list[Tensor | None]:
        """Return the gradients of `parameters`, None for those that were not used, and reset them."""
        self.compute_deferred(*self.deferred)
        pairs = [zip(stack.parameters, stack.take_gradients(), strict=True) for stack in self.stacks.values()]
        return [gradient for pair in pairs for parameter, gradient in pair if parameter is not None]

    def compute_deferred(self, *products: str) -> None:
        """Compute the deferred weight gradients of products."""
        parts_of_stack: dict[Stack, list[Deferred]] = {}
        for product in products:
            self.deferred_rows[product] = 0
            for part in self.deferred.pop(product):
                parts_of_stack.setdefault(part[0].stack, []).append(part)
        for stack, parts in parts_of_stack.items():
            if self.is_grouped and len(stack.keys) > 1:
                self._accumulate_grouped(stack, parts)
                continue
            rows_of_map: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
            for segments, all_x, all_gradients in parts:
                split = _split(all_x, segments), _split(all_gradients, segments)
                for row, x, gradient_y in zip(segments.maps, *split, strict=True):
                    xs, gradients = rows_of_map.setdefault(row, ([], []))
                    xs.append(x)
                    gradients.append(gradient_y)
            for row, columns in rows_of_map.items():
                stack.accumulate(row, *(tensors[0] if len(tensors) == 1 else torch.cat(tensors) for tensors in columns))

    def _accumulate_grouped(self, stack: Stack, parts: list[Deferred]) -> None:
        """Add to the gradients of all maps of a stack in one product."""
        maps = np.concatenate([np.repeat(segments.maps, segments.sizes) for segments, _, _ in parts])
        order, (used, counts) = maps.argsort(kind="stable"), np.unique(maps, return_counts=True)
        padded = np.full((len(used), counts.max()), len(maps))  # the row of padding
        padded[np.arange(counts.max()) < counts[:, None]] = order
        index = torch.from_numpy(padded.ravel()).to(self.device, non_blocking=True)
        _, xs, gradient_rows = zip(*parts, strict=True)
        zeros = gradient_rows[0].new_zeros(1, gradient_rows[0].shape[1])
        gradient_y = torch.cat([*gradient_rows, zeros]).index_select(0, index).unflatten(0, padded.shape)
        rows = torch.from_numpy(used).to(self.device, non_blocking=True)
        if stack.weight is not None:
            x = torch.cat([*xs, xs[0][:1]]).index_select(0, index).unflatten(0, padded.shape)
            stack.gradient(0).index_add_(0, rows, torch.bmm(gradient_y.transpose(1, 2), x))
        if stack.bias is not None:
            stack.gradient(1).index_add_(0, rows, gradient_y.sum(1))
        stack.used.update(used.tolist())

    def maps_of(self, product: str, frontier: Frontier) -> tuple[Stack, list[int]]:
        """The stack of a frontier's maps and its rows, one for every operator, or one that all share."""
        linear = self.products[product]
        places = [linear.places[operator] for operator in frontier.operators[: 1 if linear.share == "all" else None]]
        return self.stacks[product, places[0][0]], [row for _, row in places]

    def _segments(self, product: str, frontier: Frontier, x: Tensor) -> Segments:
        """The segments of a product's x (n, ..., in), found once for forward and backward."""
        repeats = math.prod(x.shape[1:-1])
        key = product, frontier.start, repeats
        if key in self.segments:
            return self.segments[key]
        is_shared, count = self.products[product].share == "all", repeats * (frontier.stop - frontier.start)
        stack, rows = self.maps_of(product, frontier)
        segments = Segments(stack, rows, [count] if is_shared else [size * repeats for size in frontier.sizes])
        if self.is_grouped and not is_shared:
            maps, sizes = np.searchsorted(stack.chosen, rows), np.array(segments.sizes)
            low, high, length = int(maps[0]), int(maps[-1]) + 1, int(sizes.max())
            if (high - low) * length <= max(PADDED_ROWS, PADDED_TIMES * count):
                place_of_row = np.repeat((maps - low) * length - sizes.cumsum() + sizes, sizes) + np.arange(count)
                row_of_place = np.zeros((high - low) * length, dtype=np.int64)
                row_of_place[place_of_row] = np.arange(count)
                indices = torch.from_numpy(np.concatenate([row_of_place, place_of_row])).to(self.device, non_blocking=True)
                places = indices.split([len(row_of_place), count])
                segments = Segments(*segments[:3], slice(low, high), length, places)
        self.segments[key] = segments
        return segments


def _split(rows: Tensor, segments: Segments) -> Sequence[Tensor]:
    return (rows,) if len(segments.sizes) == 1 else torch.split_with_sizes(rows, segments.sizes)
