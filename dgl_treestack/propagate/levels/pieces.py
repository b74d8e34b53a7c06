"""A step cut at its products into pieces that are pointwise along nodes, so that each can be one compiled kernel and its
gradient another.

    children ─► piece 0 ─► x of the first products ─► y ─► piece 1 ─► x of the next ─► y ─► ... ─► last piece ─► state

A cell never says how it is to be cut: it is run a few times on small numbers, to see which x change with which y. A piece
computes all x that depend on the y before it, the last one the state; each runs the whole step and returns its part; what it
does not need is dropped when it is compiled.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear, Shape, State
from dgl_treestack.propagate.promise import check_state

EXAMPLE_NODES = 3


@dataclass(frozen=True)
class Form:
    """What kind of step: of nodes of this arity, with external input or without, with dropout on these fields."""

    arity: int
    external: bool
    noise: tuple[str, ...]


class Replay:
    """`Ops` that takes down what goes into every product, in order, and hands out the results that are known, else zeros."""

    def __init__(self, cell: Cell, arity: int, known: Mapping[int, Tensor]):
        self.cell, self.arity, self.known = cell, arity, known
        self.products: list[str] = []
        self.x: list[Tensor] = []

    def linear(self, product: str, x: Tensor) -> Tensor:
        place = len(self.x)
        self.products.append(product)
        self.x.append(x)
        if place in self.known:
            return self.known[place]
        return x.new_zeros(*x.shape[:-1], cast(OperatorLinear, self.cell.products[product]).width(self.arity))


@dataclass(frozen=True, eq=False)
class Piece:
    """known: places of the products whose y it is given. makes: of those whose x it computes; the last computes the state."""

    known: tuple[int, ...]
    makes: tuple[int, ...]
    last: bool = False


class Split:
    """A cell's step of one form, in pieces.

    products: names, in the order of the step. tails: shapes of their x without the first dimension. constant: places of
    products without inputs, which are biases. rounds: for every piece but the last, places of the products that follow on it.
    Tensors go in and out of pieces as lists: [children's fields (n, A, *shape)..., external input, noise..., y...].
    """

    def __init__(self, cell: Cell, form: Form):
        self._cell, self.form = weakref.ref(cell), form
        source = torch.Generator().manual_seed(0)
        given = self._examples(source)
        first = Replay(cell, form.arity, {})
        state = self._step(first, given)
        check_state(state, cell, EXAMPLE_NODES)
        self.products = first.products
        self.tails = [x.shape[1:] for x in first.x]
        self.constant = [
            i for i, name in enumerate(self.products) if cast(OperatorLinear, cell.products[name]).inputs == (0, 0)
        ]
        self.rounds = self._rounds(given, source)
        self.pieces = self._pieces()

    @property
    def cell(self) -> Cell:
        """The cell, which is not held: what is made of it is kept for as long as it lives."""
        cell = self._cell()
        assert cell is not None, "a split is of no use without its cell"
        return cell

    @property
    def given_shapes(self) -> list[Shape]:
        """Of what every piece is given before y, without the first dimension."""
        children = [(self.form.arity, *shape) for shape in self.cell.fields.values()]
        external = [(self.cell.input_size,)] if self.form.external else []
        return [*children, *external, *(self.cell.noise[name] for name in self.form.noise)]

    @cached_property
    def y_shapes(self) -> list[Shape]:
        """Of the products' results, without the first dimension."""
        maps = [cast(OperatorLinear, self.cell.products[name]) for name in self.products]
        return [(*tail[:-1], one.width(self.form.arity)) for tail, one in zip(self.tails, maps, strict=True)]

    def compute(self, piece: Piece, given: Sequence[Tensor], y: Sequence[Tensor]) -> list[Tensor]:
        """What a piece is for: x by place, or the state by field."""
        replay = Replay(self.cell, self.form.arity, dict(zip(piece.known, y, strict=True)))
        state = self._step(replay, given)
        return [state[name] for name in self.cell.fields] if piece.last else [replay.x[i] for i in piece.makes]

    def gradients(
        self, piece: Piece, given: Sequence[Tensor], y: Sequence[Tensor], arriving: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Of everything in `given` and `y`, from those of what the piece computes; None where nothing depends on it."""
        with torch.enable_grad():
            read = [tensor.detach().requires_grad_() for tensor in (*given, *y)]
            outputs = self.compute(piece, read[: len(given)], read[len(given) :])
            pairs = [(out, gradient) for out, gradient in zip(outputs, arriving, strict=True) if out.requires_grad]
            if not pairs:
                return [None] * len(read)
            outs, gradients = zip(*pairs, strict=True)
            return list(torch.autograd.grad(outs, read, gradients, allow_unused=True))

    def reads(self, piece: Piece) -> list[int]:
        """Positions in [*given, *y] that a piece has a gradient for, noise excepted."""
        source = torch.Generator().manual_seed(0)
        given = self._examples(source)
        y = [torch.randn(EXAMPLE_NODES, *self.y_shapes[i], generator=source) for i in piece.known]
        found = self.gradients(piece, given, y, self.compute(piece, given, y))
        noise = range(len(given) - len(self.form.noise), len(given))
        return [i for i, gradient in enumerate(found) if gradient is not None and i not in noise]

    def _examples(self, source: torch.Generator) -> list[Tensor]:
        return [torch.rand(EXAMPLE_NODES, *shape, generator=source) for shape in self.given_shapes]

    def _step(self, replay: Replay, given: Sequence[Tensor]) -> State:
        fields = list(self.cell.fields)
        children, rest = dict(zip(fields, given, strict=False)), list(given[len(fields) :])
        inputs = rest.pop(0) if self.form.external else None
        return self.cell.node(replay, children, inputs, dict(zip(self.form.noise, rest, strict=True)))[0]

    @torch.no_grad()
    def _rounds(self, given: list[Tensor], source: torch.Generator) -> list[list[int]]:
        """Products by how many products in a row come before them: y is changed, one after the other, to see which x change."""
        y = {i: torch.randn(EXAMPLE_NODES, *shape, generator=source) for i, shape in enumerate(self.y_shapes)}
        before = self._x(given, y)
        level = [0] * len(y)
        for i in y:
            changed = self._x(given, {**y, i: y[i] + torch.randn(y[i].shape, generator=source)})
            for j, (old, new) in enumerate(zip(before, changed, strict=True)):
                if not torch.equal(old, new):
                    level[j] = max(level[j], level[i] + 1)
        return [[i for i in y if level[i] == n] for n in range(max(level, default=-1) + 1)]

    def _x(self, given: list[Tensor], y: Mapping[int, Tensor]) -> list[Tensor]:
        replay = Replay(self.cell, self.form.arity, y)
        self._step(replay, given)
        return replay.x

    def _pieces(self) -> list[Piece]:
        known: list[int] = []
        pieces = []
        for places in self.rounds:
            pieces.append(Piece(tuple(known), tuple(i for i in places if i not in self.constant)))
            known.extend(places)
        return [*pieces, Piece(tuple(known), (), last=True)]
