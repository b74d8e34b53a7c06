"""Per-operator products over the segments of a chunk, ahead and back.

Every product writes into its rows of one result. What autograd would keep for itself (a node for every product, a sum for every
use of a weight) is a loop here; gradients of weights wait until the sweep is over, when all rows of an operator are taken
together, unless there are so many that keeping them costs more than it saves.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear
from dgl_treestack.propagate.levels.memory import Memory
from dgl_treestack.propagate.levels.plan import Chunk

Key = tuple[str, str, str]  # weight or bias, product, the operator's key in it
MOST_WAITING = 2048  # rows of a product whose gradients wait


class Map(NamedTuple):
    """Weight (out, in), the same transposed, and bias (out,), of which there may be none, with the keys of their gradients."""

    weight: Tensor | None
    transposed: Tensor | None
    bias: Tensor | None
    weight_key: Key
    bias_key: Key


class Waiting(NamedTuple):
    """Rows of x and of the gradient of y, with their maps and how many rows each has."""

    x: Tensor
    arriving: Tensor
    maps: list[Map]
    sizes: list[int]


class Products:
    """The linear maps of a cell during one sweep, for some operators, and the gradients of their parameters.

    parameters: what the operators use. gradients: of what the way back has reached.
    """

    def __init__(self, cell: Cell, operators: Iterable[str], memory: Memory):
        self.memory = memory
        self.maps: dict[tuple[str, str], Map] = {}
        self.parameters: dict[Key, Tensor] = {}
        self.gradients: dict[Key, Tensor] = {}
        self.waiting: dict[str, list[Waiting]] = {}
        self.rows_waiting: dict[str, int] = {}
        self.shared = {name for name, maps in cell.products.items() if cast(OperatorLinear, maps).share == "all"}
        made: dict[Key, Map] = {}  # operators may share one
        for operator in operators:
            for product, maps in cell.products.items():
                maps = cast(OperatorLinear, maps)
                key = ("weight", product, maps.keys[operator])
                if key not in made:
                    made[key] = self._made(key, maps, operator)
                self.maps[product, operator] = made[key]

    def _made(self, key: Key, maps: OperatorLinear, operator: str) -> Map:
        """An operator's map; its parameters are taken down."""
        keys = key, ("bias", *key[1:])
        weight, bias = maps.pair(operator)
        self.parameters.update((own, p) for own, p in zip(keys, (weight, bias), strict=True) if p is not None)
        weight, bias = (None if parameter is None else parameter.detach() for parameter in (weight, bias))
        return Map(weight, None if weight is None else weight.t(), bias, *keys)

    def ahead(self, product: str, chunk: Chunk, x: Tensor) -> Tensor:
        """Weight and bias of every row's own operator: (n, ..., in) -> (n, ..., out)."""
        rows, repeats = _flat(x)
        first, *_ = maps = self._maps(product, chunk)
        result = self.memory.empty(rows.shape[0], cast(Tensor, first.bias if first.weight is None else first.weight).shape[0])
        sizes = self._sizes(product, chunk, repeats)
        for (_, transposed, bias, *_), own, part in zip(maps, _parts(rows, sizes), _parts(result, sizes), strict=True):
            if transposed is None:
                part.copy_(cast(Tensor, bias))
            elif bias is None:
                torch.mm(own, transposed, out=part)
            else:
                torch.addmm(bias, own, transposed, out=part)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def back(self, product: str, chunk: Chunk, x: Tensor, arriving: Tensor) -> Tensor:
        """The gradient of x; the parameters' own are kept."""
        rows, repeats = _flat(x)
        arriving, found = arriving.reshape(rows.shape[0], -1), self.memory.empty(*rows.shape)  # in order of rows, whatever x is
        maps, sizes = self._maps(product, chunk), self._sizes(product, chunk, repeats)
        if maps[0].weight is not None:
            for one, own, part in zip(maps, _parts(arriving, sizes), _parts(found, sizes), strict=True):
                torch.mm(own, cast(Tensor, one.weight), out=part)
        self._wait(product, Waiting(rows, arriving, maps, sizes))
        return found.view(x.shape)

    def _wait(self, product: str, one: Waiting) -> None:
        """Keep rows for later, or settle them at once where they are many and of one map."""
        count = one.x.shape[0]
        if len(one.maps) == 1 and count > MOST_WAITING // 8:
            self._accumulate(one.maps[0], one.x, one.arriving)
            return
        self.waiting.setdefault(product, []).append(one)
        self.rows_waiting[product] = self.rows_waiting.get(product, 0) + count
        if self.rows_waiting[product] > MOST_WAITING:
            self._settle(product)

    def _maps(self, product: str, chunk: Chunk) -> list[Map]:
        """One per segment, or one in all where operators share it."""
        segments = chunk.segments[:1] if product in self.shared else chunk.segments
        return [self.maps[product, segment.operator] for segment in segments]

    def _sizes(self, product: str, chunk: Chunk, repeats: int) -> list[int]:
        """Rows of every map."""
        sizes = [chunk.stop - chunk.start] if product in self.shared else chunk.sizes
        return sizes if repeats == 1 else [size * repeats for size in sizes]

    def settle(self) -> dict[Key, Tensor]:
        """The gradients of all parameters that were reached."""
        for product in list(self.waiting):
            self._settle(product)
        return self.gradients

    def _settle(self, product: str) -> None:
        """Add what waits to the gradients, operator by operator."""
        every = self.waiting.pop(product)
        self.rows_waiting[product] = 0
        by_map: dict[Key, tuple[Map, list[Tensor], list[Tensor]]] = {}
        for x, arriving, maps, sizes in every:
            for one, own, gradient in zip(maps, _parts(x, sizes), _parts(arriving, sizes), strict=True):
                _, xs, gradients = by_map.setdefault(one.weight_key, (one, [], []))
                xs.append(own)
                gradients.append(gradient)
        for one, xs, gradients in by_map.values():
            self._accumulate(one, _joined(xs), _joined(gradients))

    def _accumulate(self, one: Map, x: Tensor, arriving: Tensor) -> None:
        if one.weight is not None:
            if one.weight_key in self.gradients:
                self.gradients[one.weight_key].addmm_(arriving.t(), x)
            else:
                self.gradients[one.weight_key] = arriving.t() @ x
        if one.bias is not None:
            if one.bias_key in self.gradients:
                self.gradients[one.bias_key].add_(arriving.sum(0))
            else:
                self.gradients[one.bias_key] = arriving.sum(0)


def _flat(x: Tensor) -> tuple[Tensor, int]:
    """(n, ..., in) as (n * repeats, in), and how often a node is repeated."""
    if x.dim() == 2:
        return x, 1
    repeats = math.prod(x.shape[1:-1])
    return x.reshape(x.shape[0] * repeats, x.shape[-1]), repeats


def _parts(rows: Tensor, sizes: list[int]) -> Sequence[Tensor]:
    """Rows by how many each part has."""
    return (rows,) if len(sizes) == 1 else torch.split_with_sizes(rows, sizes)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
