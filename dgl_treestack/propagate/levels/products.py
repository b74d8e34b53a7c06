"""Per-operator products over the segments of a chunk, with a gradient of their own.

What autograd would do segment by segment (a node for every product, a sum for every use of a weight) is two loops here: every
product writes into its rows of one result, every weight's gradient is added to in place.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dgl_treestack.cells import Cell
from dgl_treestack.propagate.levels.plan import Segment


class Ledger:
    """Gradients of parameters while a sweep goes back. A parameter that was not used has none."""

    def __init__(self) -> None:
        self.entries: dict[int, Tensor] = {}

    def add_product(self, weight: Tensor, arriving: Tensor, x: Tensor) -> None:
        """Add the gradient of x W^T, from (rows, out) and (rows, in)."""
        if id(weight) in self.entries:
            self.entries[id(weight)].addmm_(arriving.t(), x)
        else:
            self.entries[id(weight)] = arriving.t() @ x

    def add_sum(self, bias: Tensor, arriving: Tensor) -> None:
        """Add the gradient of a bias, from (rows, out)."""
        if id(bias) in self.entries:
            self.entries[id(bias)].add_(arriving.sum(0))
        else:
            self.entries[id(bias)] = arriving.sum(0)


class Part(NamedTuple):
    """Rows start .. stop - 1 go through this weight (out, in) and bias (out,), either of which may be absent."""

    start: int
    stop: int
    weight: Tensor | None
    bias: Tensor | None

    @property
    def width(self) -> int:
        """Of what comes out."""
        return len(cast(Tensor, self.bias if self.weight is None else self.weight))


class SegmentOps:
    """`Ops` for a chunk: every segment's rows go through their own operator's map.

    anchor: an empty tensor that requires a gradient, so that a product is recorded whatever it is applied to.
    """

    def __init__(self, cell: Cell, segments: Sequence[Segment], anchor: Tensor, ledger: Ledger):
        self.cell, self.segments, self.anchor, self.ledger = cell, segments, anchor, ledger

    def linear(self, product: str, x: Tensor) -> Tensor:
        maps = self.cell.products[product]
        parts = [Part(segment.start, segment.stop, *maps.pair(segment.operator)) for segment in self.segments]  # type: ignore[operator]
        return _Products.apply(x, self.anchor, parts, self.ledger)


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, parts: list[Part], ledger: Ledger) -> Tensor:
        repeats = math.prod(x.shape[1:-1])
        rows = x.reshape(len(x) * repeats, x.shape[-1])
        result = x.new_empty(len(rows), parts[0].width)
        for part in parts:
            span = slice(part.start * repeats, part.stop * repeats)
            if part.weight is None:
                result[span] = cast(Tensor, part.bias)
            elif part.bias is None:
                torch.mm(rows[span], part.weight.t(), out=result[span])
            else:
                torch.addmm(part.bias, rows[span], part.weight.t(), out=result[span])
        ctx.save_for_backward(rows)
        ctx.shape, ctx.parts, ctx.ledger, ctx.repeats = x.shape, parts, ledger, repeats
        return result.reshape(*x.shape[:-1], result.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor, None, None, None]:
        (rows,) = ctx.saved_tensors
        arriving, found = arriving.reshape(len(rows), -1), torch.empty_like(rows)
        for part in ctx.parts:
            span = slice(part.start * ctx.repeats, part.stop * ctx.repeats)
            if part.weight is not None:
                torch.mm(arriving[span], part.weight, out=found[span])
                ctx.ledger.add_product(part.weight, arriving[span], rows[span])
            if part.bias is not None:
                ctx.ledger.add_sum(part.bias, arriving[span])
        return found.reshape(ctx.shape), None, None, None
