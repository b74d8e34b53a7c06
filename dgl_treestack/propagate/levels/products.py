"""Per-operator products over the segments of a chunk, ahead and back.

Every product writes into its rows of one result. What autograd would keep for itself (a node for every product, a sum for every
use of a weight) is a loop here; gradients of weights wait until the sweep is over, when all rows of an operator are taken
together, unless there are so many that keeping them costs more than it saves.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear
from dgl_treestack.propagate.levels.memory import Memory
from dgl_treestack.propagate.levels.plan import Chunk

Key = tuple[str, str, str]  # weight or bias, product, the operator's key in it
MOST_WAITING = 2048  # rows of a product whose gradients wait


def keys_of(cell: Cell, product: str, operator: str) -> tuple[Key, Key]:
    """Of weight and bias, whether they exist or not."""
    own = cast(OperatorLinear, cell.products[product]).keys[operator]
    return ("weight", product, own), ("bias", product, own)


def parameters_of(cell: Cell, operators: Sequence[str]) -> dict[Key, Tensor]:
    """What operators use of a cell's products."""
    found: dict[Key, Tensor] = {}
    for operator in operators:
        for product, linear in cell.products.items():
            pair = cast(OperatorLinear, linear).pair(operator)
            found.update((key, own) for key, own in zip(keys_of(cell, product, operator), pair, strict=True) if own is not None)
    return found


class Map:
    """Weight (out, in) and bias (out,), of which there may be none, and their gradients, as far as there are any."""

    def __init__(self, weight: Tensor | None, bias: Tensor | None):
        self.weight, self.bias = weight, bias
        self.transposed = None if weight is None else weight.t()
        self.inputs = 0 if weight is None else weight.shape[1]
        self.width = len(cast(Tensor, bias if weight is None else weight))
        self.of_weight: Tensor | None = None
        self.of_bias: Tensor | None = None

    def apply(self, x: Tensor, out: Tensor) -> None:
        if self.transposed is None:
            out.copy_(cast(Tensor, self.bias))
        elif self.bias is None:
            torch.mm(x, self.transposed, out=out)
        else:
            torch.addmm(self.bias, x, self.transposed, out=out)

    def accumulate(self, x: Tensor, arriving: Tensor) -> None:
        """Add to the gradients, from those of what came out."""
        if self.weight is not None:
            one = arriving.t()
            self.of_weight = one @ x if self.of_weight is None else self.of_weight.addmm_(one, x)
        if self.bias is not None:
            self.of_bias = arriving.sum(0) if self.of_bias is None else self.of_bias.add_(arriving.sum(0))


class Waiting(NamedTuple):
    """Rows of x and of the gradient of y by map."""

    maps: list[Map]
    x: Sequence[Tensor]
    arriving: Sequence[Tensor]


class Products:
    """The linear maps of a cell during one sweep, for some operators, and the gradients of their parameters."""

    def __init__(self, cell: Cell, operators: Sequence[str], memory: Memory):
        self.cell, self.memory = cell, memory
        self.parameters = parameters_of(cell, operators)
        self.maps: dict[tuple[str, str], Map] = {}  # by product and the operator's key in it
        self.of_chunks: dict[tuple[str, int], list[Map]] = {}  # by a chunk's first row
        self.waiting: dict[str, list[Waiting]] = {}
        self.rows_waiting: dict[str, int] = {}
        self.shared = {name for name, maps in cell.products.items() if cast(OperatorLinear, maps).share == "all"}

    def _map(self, product: str, operator: str) -> Map:
        """Made when it is first asked for."""
        linear = cast(OperatorLinear, self.cell.products[product])
        key = product, linear.keys[operator]
        if key not in self.maps:
            self.maps[key] = Map(*(None if own is None else own.detach() for own in linear.pair(operator)))
        return self.maps[key]

    def ahead(self, product: str, chunk: Chunk, x: Tensor) -> Tensor:
        """Weight and bias of every row's own operator: (n, ..., in) -> (n, ..., out)."""
        rows, repeats = _flat(x)
        maps, sizes = self._maps(product, chunk), self._sizes(product, chunk, repeats)
        result = self.memory.empty(rows.shape[0], maps[0].width)
        for one, own, part in zip(maps, _parts(rows, sizes), _parts(result, sizes), strict=True):
            one.apply(own, part)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def back(self, product: str, chunk: Chunk, x: Tensor, arriving: Tensor) -> Tensor:
        """The gradient of x; the parameters' own are kept."""
        rows, repeats = _flat(x)
        maps, sizes = self._maps(product, chunk), self._sizes(product, chunk, repeats)
        inputs = maps[0].inputs
        arriving, found = _flat(arriving)[0], self.memory.empty(rows.shape[0], inputs)
        if inputs:
            for one, gradient, part in zip(maps, _parts(arriving, sizes), _parts(found, sizes), strict=True):
                torch.mm(gradient, cast(Tensor, one.weight), out=part)
        if len(maps) == 1 and rows.shape[0] > MOST_WAITING // 8:  # while they are in the cache
            maps[0].accumulate(rows, arriving)
        else:
            self._wait(product, Waiting(maps, _parts(rows, sizes), _parts(arriving, sizes)), rows.shape[0])
        return found if x.dim() == 2 else found.view(*x.shape[:-1], inputs)

    def _wait(self, product: str, one: Waiting, count: int) -> None:
        """Keep rows for later."""
        self.waiting.setdefault(product, []).append(one)
        self.rows_waiting[product] = self.rows_waiting.get(product, 0) + count
        if self.rows_waiting[product] > MOST_WAITING:
            self._settle(product)

    def _maps(self, product: str, chunk: Chunk) -> list[Map]:
        """One per segment, or one in all where operators share it."""
        found = self.of_chunks.get((product, chunk.start))
        if found is None:
            operators = chunk.operators[:1] if product in self.shared else chunk.operators
            found = self.of_chunks[product, chunk.start] = [self._map(product, operator) for operator in operators]
        return found

    def _sizes(self, product: str, chunk: Chunk, repeats: int) -> Sequence[int]:
        """Rows of every map."""
        sizes = [chunk.stop - chunk.start] if product in self.shared else chunk.sizes
        return sizes if repeats == 1 else [size * repeats for size in sizes]

    def settle(self) -> dict[Key, Tensor]:
        """The gradients of all parameters that were reached, which are then forgotten here."""
        self.settle_waiting()
        found: dict[Key, Tensor] = {}
        for key, one in self.maps.items():
            pairs = ("weight", one.of_weight), ("bias", one.of_bias)
            found.update(((kind, *key), gradient) for kind, gradient in pairs if gradient is not None)
            one.of_weight = one.of_bias = None
        return found

    def settle_waiting(self) -> None:
        """Add all that waits to the gradients."""
        for product in list(self.waiting):
            self._settle(product)

    def _settle(self, product: str) -> None:
        """Add what waits to the gradients, operator by operator."""
        every = self.waiting.pop(product)
        self.rows_waiting[product] = 0
        by_map: dict[Map, tuple[list[Tensor], list[Tensor]]] = {}
        for waiting in every:
            for one, own, gradient in zip(*waiting, strict=True):
                xs, gradients = by_map.setdefault(one, ([], []))
                xs.append(own)
                gradients.append(gradient)
        for one, (xs, gradients) in by_map.items():
            one.accumulate(_joined(xs), _joined(gradients))


def _flat(x: Tensor) -> tuple[Tensor, int]:
    """(n, ..., in) as (n * repeats, in), and how often a node is repeated."""
    if x.dim() == 2:
        return x, 1
    repeats = math.prod(x.shape[1:-1])
    return x.reshape(x.shape[0] * repeats, x.shape[-1]), repeats


def _parts(rows: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    """Rows by how many each part has."""
    return (rows,) if len(sizes) == 1 else torch.split_with_sizes(rows, sizes)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
