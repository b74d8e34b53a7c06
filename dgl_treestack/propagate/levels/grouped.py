"""Linear maps of eager steps on a GPU: those of a frontier's operators as one batched product.

A GPU waits for the CPU to launch products of few rows, so that one large product is faster than many small ones, although it
computes padding. The weights of all operators with maps of one shape are stacked, once per sweep. A frontier's segments are
copied to places of equal length, one per operator; weight gradients are computed in the same way, for many frontiers at once.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.cells import OperatorLinear
from dgl_treestack.propagate.levels.linear_maps import Key, LinearMaps
from dgl_treestack.propagate.levels.plan import Frontier
from dgl_treestack.propagate.levels.sweep import Work

Names = tuple[str, ...]  # of operators
PADDED_ROWS = 2**13  # a product may always have so many rows with padding,
PADDED_TIMES = 4  # or so many times the rows without it; the segments of a larger one are products of their own
DEFERRED_ROWS = 2**13  # of a product; then their weight gradients are computed


class Stack(NamedTuple):
    """The maps of one product whose shapes are equal: weight (K, out, in) and bias (K, 1, out), either may be None.

    names: (K,) of their operators. index_of: an operator in the stack, by its name.
    """

    weight: Tensor | None
    bias: Tensor | None
    names: Names
    index_of: dict[str, int]


class Places(NamedTuple):
    """Where n rows, sorted by map, are in a tensor (maps, length, ...).

    low, high: the range of the stack's maps. row_of_place: (maps * length,), row 0 where there is padding. place_of_row: (n,).
    """

    low: int
    high: int
    row_of_place: Tensor
    place_of_row: Tensor


class Rows(NamedTuple):
    """Rows of x and of the gradient of y, sorted by operator; sizes: how many each operator has."""

    operators: Sequence[str]
    sizes: Sequence[int]
    x: Tensor
    gradient_y: Tensor


class GroupedMaps(LinearMaps):
    """`LinearMaps` with one batched product per frontier and product of the cell."""

    def __init__(self, work: Work):
        super().__init__(work)
        self.device = work.arena.device
        self.operators = sorted(work.plan.operators, key=[operator.name for operator in work.cell.operators].index)
        self.stacks: dict[tuple[str, str], Stack] = {}  # by product and operator
        self.places: dict[tuple[int, int, Names], Places | None] = {}  # by first row, rows per node, a stack's operators
        self.rows: dict[tuple[str, Names], list[Rows]] = {}  # by product and a stack's operators
        self.gradients: dict[Key, Tensor] = {}

    def forward(self, product: str, frontier: Frontier, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        stack = self._stack(product, frontier)
        places = None if stack is None else self._places(frontier, stack, len(rows))
        if stack is None or places is None:
            return super().forward(product, frontier, x)
        chosen = slice(places.low, places.high)
        if stack.weight is None:
            y = cast(Tensor, stack.bias)[chosen].expand(-1, len(places.row_of_place) // (places.high - places.low), -1)
        else:
            padded = _padded(rows, places)
            weight = stack.weight[chosen].transpose(1, 2)
            y = torch.bmm(padded, weight) if stack.bias is None else torch.baddbmm(stack.bias[chosen], padded, weight)
        return y.reshape(-1, y.shape[-1]).index_select(0, places.place_of_row).view(*x.shape[:-1], -1)

    def backward(self, product: str, frontier: Frontier, x: Tensor, gradient_y: Tensor) -> Tensor:
        stack = self._stack(product, frontier)
        if stack is None:
            return super().backward(product, frontier, x, gradient_y)
        rows, gradient_rows = x.flatten(0, -2), gradient_y.flatten(0, -2)
        repeats = len(rows) // (frontier.stop - frontier.start)
        sizes = [size * repeats for size in frontier.sizes]
        self.rows.setdefault((product, stack.names), []).append(Rows(frontier.operators, sizes, rows, gradient_rows))
        self.deferred_rows[product] = self.deferred_rows.get(product, 0) + len(rows)
        places = self._places(frontier, stack, len(rows))
        if stack.weight is None:
            gradient_x = torch.empty_like(rows)  # of width 0
        elif places is None:
            gradient_x = torch.cat(
                [
                    part @ stack.weight[stack.index_of[name]]
                    for name, part in zip(frontier.operators, gradient_rows.split(sizes), strict=True)
                ]
            )
        else:
            products = torch.bmm(_padded(gradient_rows, places), stack.weight[places.low : places.high])
            gradient_x = products.flatten(0, 1).index_select(0, places.place_of_row)
        if self.deferred_rows[product] > DEFERRED_ROWS:
            self.compute_deferred()
        return gradient_x.view_as(x)

    def take_gradients(self) -> dict[Key, Tensor]:
        gradients = {**super().take_gradients(), **self.gradients}
        self.gradients = {}
        return gradients

    def compute_deferred(self) -> None:
        super().compute_deferred()
        for (product, _), parts in self.rows.items():
            self.deferred_rows[product] = 0
            self._add_gradients(product, parts)
        self.rows = {}

    def _add_gradients(self, product: str, parts: list[Rows]) -> None:
        """Add to the gradients of the maps of one stack, of all operators in one product."""
        stack = self.stacks[product, parts[0].operators[0]]
        row_of_map: list[list[np.ndarray]] = [[] for _ in stack.names]
        start = 0
        for part in parts:
            for name, size in zip(part.operators, part.sizes, strict=True):
                row_of_map[stack.index_of[name]].append(np.arange(start, start + size))
                start += size
        rows = [np.concatenate([*arrays, np.empty(0, dtype=np.int64)]) for arrays in row_of_map]
        length = max(map(len, rows))
        padded = np.full((len(rows), length), start)
        for i, numbers in enumerate(rows):
            padded[i, : len(numbers)] = numbers
        index = torch.from_numpy(padded.ravel()).to(self.device, non_blocking=True)
        gradient_rows = [part.gradient_y for part in parts]
        zeros = gradient_rows[0].new_zeros(1, gradient_rows[0].shape[1])  # the row of padding
        gradient_y = torch.cat([*gradient_rows, zeros]).index_select(0, index).view(len(rows), length, -1)
        used = [(name, i) for name, i in stack.index_of.items() if len(rows[i])]
        if stack.weight is not None:
            x = torch.cat([*(part.x for part in parts), parts[0].x[:1]]).index_select(0, index).view(len(rows), length, -1)
            self._add("weight", product, used, torch.bmm(gradient_y.transpose(1, 2), x))
        if stack.bias is not None:
            self._add("bias", product, used, gradient_y.sum(1))

    def _add(self, kind: str, product: str, used: Sequence[tuple[str, int]], gradients: Tensor) -> None:
        """Add the gradients of the operators in use, by their indices in a stack (K, ...)."""
        linear = cast(OperatorLinear, self.cell.products[product])
        by_map = gradients.unbind()
        for name, i in used:
            key = kind, product, linear.keys[name]
            self.gradients[key] = self.gradients[key] + by_map[i] if key in self.gradients else by_map[i]

    def _stack(self, product: str, frontier: Frontier) -> Stack | None:
        """Return the stack with the maps of a frontier, None if its operators share a map."""
        linear, first = cast(OperatorLinear, self.cell.products[product]), frontier.operators[0]
        if linear.share == "all":
            return None
        if (product, first) not in self.stacks:
            shapes = {name: [None if p is None else p.shape for p in linear.pair(name)] for name in self.operators}
            names = [name for name in self.operators if shapes[name] == shapes[first]]
            weights, biases = zip(*(linear.pair(name) for name in names), strict=True)
            stack = Stack(
                None if weights[0] is None else torch.stack([weight.detach() for weight in weights]),
                None if biases[0] is None else torch.stack([bias.detach() for bias in biases]).unsqueeze(1),
                tuple(names),
                {name: i for i, name in enumerate(names)},
            )
            self.stacks.update({(product, name): stack for name in names})
        return self.stacks[product, first]

    def _places(self, frontier: Frontier, stack: Stack, count: int) -> Places | None:
        """Return where the rows of a frontier are in a batched product, None if too much of it would be padding."""
        repeats = count // (frontier.stop - frontier.start)
        key = frontier.start, repeats, stack.names
        if key not in self.places:
            maps = np.array([stack.index_of[name] for name in frontier.operators])
            sizes = repeats * np.array(frontier.sizes)
            low, high, length = int(maps[0]), int(maps[-1]) + 1, int(sizes.max())
            places = None
            if (high - low) * length <= max(PADDED_ROWS, PADDED_TIMES * count):
                ends = sizes.cumsum()
                place_of_row = np.repeat((maps - low) * length - ends + sizes, sizes) + np.arange(count)
                row_of_place = np.zeros((high - low) * length, dtype=np.int64)
                row_of_place[place_of_row] = np.arange(count)
                indices = torch.from_numpy(np.concatenate([row_of_place, place_of_row])).to(self.device, non_blocking=True)
                places = Places(low, high, *indices.split([len(row_of_place), count]))
            self.places[key] = places
        return self.places[key]


def _padded(rows: Tensor, places: Places) -> Tensor:
    """Return rows (n, W) at their places: (maps, length, W)."""
    return rows.index_select(0, places.row_of_place).view(places.high - places.low, -1, rows.shape[1])
