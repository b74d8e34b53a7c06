"""Per-operator products over the segments of a chunk, ahead and back.

Every product writes into its rows of one result. What autograd would keep for itself (a node for every product, a sum for every
use of a weight) is a loop here; gradients of weights wait until the sweep is over, when all rows of an operator are taken
together, unless there are so many that keeping them costs more than it saves.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear
from dgl_treestack.propagate.levels.memory import Memory
from dgl_treestack.propagate.levels.plan import Chunk

Key = tuple[str, str, str]  # weight or bias, product, the operator's key in it
Unit = tuple[str, ...]  # products that are applied to the same x; their results lie side by side
MOST_WAITING = 2048  # rows of a unit whose gradients wait


class Part(NamedTuple):
    """A product's share of a map: the keys of its parameters, the width of its result."""

    weight_key: Key
    bias_key: Key
    width: int


@dataclass(eq=False)
class Map:
    """An operator's map of a unit: weight (out, in), the same transposed, and bias (out,), of which there may be none.

    of_weight, of_bias: their gradients, as far as there are any.
    """

    weight: Tensor | None
    bias: Tensor | None
    parts: list[Part]
    of_weight: Tensor | None = None
    of_bias: Tensor | None = None

    def __post_init__(self) -> None:
        self.transposed = None if self.weight is None else self.weight.t()
        self.width = sum(part.width for part in self.parts)


class Waiting(NamedTuple):
    """Rows of x and of the gradient of y by map."""

    maps: list[Map]
    x: Sequence[Tensor]
    arriving: Sequence[Tensor]


class Products:
    """The linear maps of a cell during one sweep, for some operators, and the gradients of their parameters.

    parameters: what the operators use.
    """

    def __init__(self, cell: Cell, operators: Iterable[str], memory: Memory):
        self.memory, self.products = memory, {name: cast(OperatorLinear, maps) for name, maps in cell.products.items()}
        self.of_chunks: dict[tuple[Unit, int], list[Map]] = {}  # by a chunk's first row
        self.maps: dict[tuple[Unit, str], Map] = {}  # by operator, or by its key where operators share weights
        self.parameters: dict[Key, Tensor] = {}
        self.waiting: dict[Unit, list[Waiting]] = {}
        self.rows_waiting: dict[Unit, int] = {}
        self.shared = {name for name, maps in self.products.items() if maps.share == "all"}
        for operator in operators:
            for product, linear in self.products.items():
                keys, tensors = self._keys(product, operator), linear.pair(operator)
                self.parameters.update((key, value) for key, value in zip(keys, tensors, strict=True) if value is not None)

    def _keys(self, product: str, operator: str) -> tuple[Key, Key]:
        own = self.products[product].keys[operator]
        return ("weight", product, own), ("bias", product, own)

    def _map(self, unit: Unit, operator: str) -> Map:
        """Made when it is first asked for."""
        name = "".join(self.products[product].keys[operator] for product in unit) if unit[0] in self.shared else operator
        if (unit, name) not in self.maps:
            self.maps[unit, name] = self._made(unit, operator)
        return self.maps[unit, name]

    def _made(self, unit: Unit, operator: str) -> Map:
        pairs = [self.products[product].pair(operator) for product in unit]
        weights, biases = ([tensor.detach() for tensor in column if tensor is not None] for column in zip(*pairs, strict=True))
        widths = [len(tensor) for tensor in weights or biases]
        parts = [Part(*self._keys(product, operator), width) for product, width in zip(unit, widths, strict=True)]
        return Map(_joined(weights) if weights else None, _joined(biases) if biases else None, parts)

    def ahead(self, unit: Unit, chunk: Chunk, x: Tensor) -> Tensor:
        """Weight and bias of every row's own operator: (n, ..., in) -> (n, ..., out)."""
        rows, repeats = _flat(x)
        maps, sizes = self._maps(unit, chunk), self._sizes(unit, chunk, repeats)
        result = self.memory.empty(rows.shape[0], maps[0].width)
        for one, own, part in zip(maps, _parts(rows, sizes), _parts(result, sizes), strict=True):
            if one.transposed is None:
                part.copy_(cast(Tensor, one.bias))
            elif one.bias is None:
                torch.mm(own, one.transposed, out=part)
            else:
                torch.addmm(one.bias, own, one.transposed, out=part)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def back(self, unit: Unit, chunk: Chunk, x: Tensor, arriving: Tensor) -> Tensor:
        """The gradient of x; the parameters' own are kept."""
        rows, repeats = _flat(x)
        arriving, found = arriving.reshape(rows.shape[0], -1), self.memory.empty(*rows.shape)  # in order of rows, whatever x is
        maps, sizes = self._maps(unit, chunk), self._sizes(unit, chunk, repeats)
        of_y = _parts(arriving, sizes)
        if maps[0].weight is not None:
            for one, own, part in zip(maps, of_y, _parts(found, sizes), strict=True):
                torch.mm(own, cast(Tensor, one.weight), out=part)
        self._wait(unit, Waiting(maps, _parts(rows, sizes), of_y), rows.shape[0])
        return found.view(x.shape)

    def _wait(self, unit: Unit, one: Waiting, count: int) -> None:
        """Keep rows for later, or settle them at once where they are many and of one map."""
        if len(one.maps) == 1 and count > MOST_WAITING // 8:
            _accumulate(one.maps[0], one.x[0], one.arriving[0])
            return
        self.waiting.setdefault(unit, []).append(one)
        self.rows_waiting[unit] = self.rows_waiting.get(unit, 0) + count
        if self.rows_waiting[unit] > MOST_WAITING:
            self._settle(unit)

    def _maps(self, unit: Unit, chunk: Chunk) -> list[Map]:
        """One per segment, or one in all where operators share it."""
        found = self.of_chunks.get((unit, chunk.start))
        if found is None:
            segments = chunk.segments[:1] if unit[0] in self.shared else chunk.segments
            found = self.of_chunks[unit, chunk.start] = [self._map(unit, segment.operator) for segment in segments]
        return found

    def _sizes(self, unit: Unit, chunk: Chunk, repeats: int) -> list[int]:
        """Rows of every map."""
        sizes = [chunk.stop - chunk.start] if unit[0] in self.shared else chunk.sizes
        return sizes if repeats == 1 else [size * repeats for size in sizes]

    def settle(self) -> dict[Key, Tensor]:
        """The gradients of all parameters that were reached, which are then forgotten here."""
        for unit in list(self.waiting):
            self._settle(unit)
        found: dict[Key, Tensor] = {}
        for one in self.maps.values():
            widths = [part.width for part in one.parts]
            for gradient, keys in (
                (one.of_weight, [part.weight_key for part in one.parts]),
                (one.of_bias, [part.bias_key for part in one.parts]),
            ):
                if gradient is not None:
                    for key, own in zip(keys, _parts(gradient, widths), strict=True):
                        found[key] = found[key] + own if key in found else own
            one.of_weight = one.of_bias = None
        return found

    def _settle(self, unit: Unit) -> None:
        """Add what waits to the gradients, operator by operator."""
        every = self.waiting.pop(unit)
        self.rows_waiting[unit] = 0
        by_map: dict[Map, tuple[list[Tensor], list[Tensor]]] = {}
        for waiting in every:
            for one, own, gradient in zip(*waiting, strict=True):
                xs, gradients = by_map.setdefault(one, ([], []))
                xs.append(own)
                gradients.append(gradient)
        for one, (xs, gradients) in by_map.items():
            _accumulate(one, _joined(xs), _joined(gradients))


def _accumulate(one: Map, x: Tensor, arriving: Tensor) -> None:
    if one.weight is not None:
        one.of_weight = arriving.t() @ x if one.of_weight is None else one.of_weight.addmm_(arriving.t(), x)
    if one.bias is not None:
        one.of_bias = arriving.sum(0) if one.of_bias is None else one.of_bias.add_(arriving.sum(0))


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
