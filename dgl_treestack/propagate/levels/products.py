"""Per-operator products over the segments of a chunk, ahead and back.

Every product writes into its rows of one result. What autograd would keep for itself (a node for every product, a sum for every
use of a weight) is a loop here; gradients of weights wait until the sweep is over, when all rows of an operator are taken
together, unless there are so many that keeping them costs more than it saves. In large batches the bias is a row of the weight
and x ends in a one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear
from dgl_treestack.propagate.levels.memory import Memory
from dgl_treestack.propagate.levels.plan import Chunk, Plan

Key = tuple[str, str, str]  # weight or bias, product, the operator's key in it
Unit = tuple[str, ...]  # products that are applied to the same x; their results lie side by side
MOST_WAITING = 2048  # rows of a unit whose gradients wait
WORTH_JOINING = 64  # rows of a map from which on a joint copy of its weight and bias pays


class Part(NamedTuple):
    """A product's share of a map: the keys of its parameters, the width of its result."""

    weight_key: Key
    bias_key: Key
    width: int


class Map:
    """An operator's map of a unit: weight (out, in) and bias (out,), of which there may be none.

    joint: both as one (in + 1, out), the bias as the last row, where x end in a one. It is a copy, but a product with it writes
    its result once, and one of few rows takes half the time that it takes by a transposed weight. of_weight, of_bias, of_joint:
    the gradients, as far as there are any.
    """

    def __init__(self, weight: Tensor | None, bias: Tensor | None, parts: list[Part], *, joint: bool):
        self.weight, self.bias, self.parts = weight, bias, parts
        self.transposed = None if weight is None else weight.t()
        self.inputs, self.width = 0 if weight is None else weight.shape[1], sum(part.width for part in parts)
        self.joint: Tensor | None = None
        if joint and self.transposed is not None and bias is not None:
            self.joint = torch.cat([self.transposed, bias[None]])
        self.of_weight: Tensor | None = None
        self.of_bias: Tensor | None = None
        self.of_joint: Tensor | None = None

    def apply(self, x: Tensor, out: Tensor) -> None:
        if self.joint is not None:
            torch.mm(x, self.joint, out=out)
        elif self.transposed is None:
            out.copy_(cast(Tensor, self.bias))
        elif self.bias is None:
            torch.mm(x, self.transposed, out=out)
        else:
            torch.addmm(self.bias, x, self.transposed, out=out)

    def accumulate(self, x: Tensor, arriving: Tensor) -> None:
        """Add to the gradients, from those of what came out."""
        if self.joint is not None:
            self.of_joint = _plus_product(self.of_joint, x, arriving)
            return
        if self.weight is not None:
            self.of_weight = _plus_product(self.of_weight, arriving, x)
        if self.bias is not None:
            self.of_bias = arriving.sum(0) if self.of_bias is None else self.of_bias.add_(arriving.sum(0))

    def take(self) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of weight and bias, which are then forgotten here."""
        found = self.of_weight, self.of_bias
        if self.of_joint is not None:
            found = self.of_joint[:-1].t(), self.of_joint[-1].clone()
        self.of_weight = self.of_bias = self.of_joint = None
        return found


class Waiting(NamedTuple):
    """Rows of x and of the gradient of y by map."""

    maps: list[Map]
    x: Sequence[Tensor]
    arriving: Sequence[Tensor]


def worth_joining(cell: Cell, plan: Plan) -> bool:
    """Whether maps of a cell have so many rows that joint ones pay."""
    maps = [len({cast(OperatorLinear, one).keys[name] for name in plan.operators}) for one in cell.products.values()]
    return plan.rows > WORTH_JOINING * max(maps, default=0)


class Products:
    """The linear maps of a cell during one sweep, for some operators, and the gradients of their parameters.

    parameters: what the operators use. joint: x of units that have inputs and biases end in a one.
    """

    def __init__(self, cell: Cell, operators: Sequence[str], memory: Memory, *, joint: bool = False):
        self.joint = joint
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
        return Map(_joined(weights) if weights else None, _joined(biases) if biases else None, parts, joint=self.joint)

    def ahead(self, unit: Unit, chunk: Chunk, x: Tensor) -> Tensor:
        """Weight and bias of every row's own operator: (n, ..., in) -> (n, ..., out)."""
        rows, repeats = _flat(x)
        maps, sizes = self._maps(unit, chunk), self._sizes(unit, chunk, repeats)
        result = self.memory.empty(rows.shape[0], maps[0].width)
        for one, own, part in zip(maps, _parts(rows, sizes), _parts(result, sizes), strict=True):
            one.apply(own, part)
        return result.unflatten(0, x.shape[:-1]) if x.dim() > 2 else result

    def back(self, unit: Unit, chunk: Chunk, x: Tensor, arriving: Tensor) -> Tensor:
        """The gradient of x; the parameters' own are kept."""
        rows, repeats = _flat(x)
        maps, sizes = self._maps(unit, chunk), self._sizes(unit, chunk, repeats)
        inputs = maps[0].inputs
        arriving, found = _flat(arriving)[0], self.memory.empty(rows.shape[0], inputs)
        of_x, of_y = _parts(rows, sizes), _parts(arriving, sizes)
        at_once = self.joint or (len(maps) == 1 and rows.shape[0] > MOST_WAITING // 8)
        for one, own, gradient, part in zip(maps, of_x, of_y, _parts(found, sizes), strict=True):
            if inputs:
                torch.mm(gradient, cast(Tensor, one.weight), out=part)
            if at_once:  # while they are in the cache
                one.accumulate(own, gradient)
        if not at_once:
            self._wait(unit, Waiting(maps, of_x, of_y), rows.shape[0])
        return found if x.dim() == 2 else found.view(*x.shape[:-1], inputs)

    def _wait(self, unit: Unit, one: Waiting, count: int) -> None:
        """Keep rows for later."""
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
            of_weight, of_bias = one.take()
            for gradient, keys in (
                (of_weight, [part.weight_key for part in one.parts]),
                (of_bias, [part.bias_key for part in one.parts]),
            ):
                if gradient is not None:
                    for key, own in zip(keys, _parts(gradient, widths), strict=True):
                        found[key] = found[key] + own if key in found else own
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
            one.accumulate(_joined(xs), _joined(gradients))


def _plus_product(total: Tensor | None, one: Tensor, other: Tensor) -> Tensor:
    """total + one' other, where there is a total yet."""
    return one.t() @ other if total is None else total.addmm_(one.t(), other)


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
