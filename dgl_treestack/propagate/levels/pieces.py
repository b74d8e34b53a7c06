"""A step cut at its products into pieces that are pointwise along nodes, so that each can be one compiled kernel and its
gradient another.

    children ─► piece 0 ─► x of the first products ─► y ─► piece 1 ─► x of the next ─► y ─► ... ─► last piece ─► state

A cell never says how it is to be cut: it is run a few times on small numbers, to see which x change with which y. A piece
computes all x that depend on the y before it, the last one the state; each runs the whole step and returns its part; what it
does not need is dropped when it is compiled. Products that are applied to the same x at the same time are one, a `Unit`, with
their results side by side.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

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


class Unit(NamedTuple):
    """Products of one x. places: in the order of the step. names: of the products. widths: of their results.

    tail: shape of x without the first dimension. constant: whether they have no inputs, and are biases. biased: whether they
    have inputs and biases; their x then ends in a one, by which biases are multiplied. shared: whether all operators have one.
    """

    places: tuple[int, ...]
    names: tuple[str, ...]
    widths: tuple[int, ...]
    tail: tuple[int, ...]
    constant: bool
    biased: bool
    shared: bool

    @property
    def x_shape(self) -> Shape:
        """Of x as it is kept, without the first dimension."""
        return (*self.tail[:-1], self.tail[-1] + self.biased)

    @property
    def y_shape(self) -> Shape:
        """Of the results side by side, without the first dimension."""
        return (*self.tail[:-1], sum(self.widths))


@dataclass(frozen=True, eq=False)
class Piece:
    """known: the units whose y it is given. makes: those whose x it computes; the last piece computes the state."""

    known: tuple[int, ...]
    makes: tuple[int, ...]
    last: bool = False


class Split:
    """A cell's step of one form, in pieces.

    units: products, those of the same x together. rounds: for every piece but the last, the units that follow on it.
    Tensors go in and out of pieces as lists: [children's fields (n, A, *shape)..., external input, noise..., y of units...].
    """

    def __init__(self, cell: Cell, form: Form):
        self._cell, self.form = weakref.ref(cell), form
        source = torch.Generator().manual_seed(0)
        given = self._examples(source)
        first = Replay(cell, form.arity, {})
        state = self._step(first, given)
        check_state(state, cell, EXAMPLE_NODES)
        level, alike = self._levels(first, given, source)
        self.units = self._units(first, level, alike)
        of_level = [level[unit.places[0]] for unit in self.units]
        self.rounds = [[i for i, own in enumerate(of_level) if own == n] for n in range(max(of_level, default=-1) + 1)]
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

    def compute(self, piece: Piece, given: Sequence[Tensor], y: Sequence[Tensor]) -> list[Tensor]:
        """What a piece is for: x by unit, or the state by field."""
        known: dict[int, Tensor] = {}
        for unit, together in zip((self.units[i] for i in piece.known), y, strict=True):
            parts = together.split_with_sizes(unit.widths, -1) if len(unit.widths) > 1 else (together,)
            known.update(zip(unit.places, parts, strict=True))
        replay = Replay(self.cell, self.form.arity, known)
        state = self._step(replay, given)
        return (
            [state[name] for name in self.cell.fields]
            if piece.last
            else [replay.x[self.units[i].places[0]] for i in piece.makes]
        )

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
        y = [torch.randn(EXAMPLE_NODES, *self.units[i].y_shape, generator=source) for i in piece.known]
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
    def _levels(self, first: Replay, given: list[Tensor], source: torch.Generator) -> tuple[list[int], list[list[Tensor]]]:
        """By place: how many products in a row come before it, and its x in some runs. y is changed, one after the other, to
        see which x change."""
        widths = [cast(OperatorLinear, self.cell.products[name]).width(self.form.arity) for name in first.products]
        y = {
            i: torch.randn(EXAMPLE_NODES, *x.shape[1:-1], width, generator=source)
            for i, (x, width) in enumerate(zip(first.x, widths, strict=True))
        }
        before = self._x(given, y)
        level, alike = [0] * len(y), [[x] for x in before]
        for i in y:
            changed = self._x(given, {**y, i: y[i] + torch.randn(y[i].shape, generator=source)})
            for j, (old, new) in enumerate(zip(before, changed, strict=True)):
                alike[j].append(new)
                if not torch.equal(old, new):
                    level[j] = max(level[j], level[i] + 1)
        return level, alike

    def _x(self, given: list[Tensor], y: Mapping[int, Tensor]) -> list[Tensor]:
        replay = Replay(self.cell, self.form.arity, y)
        self._step(replay, given)
        return replay.x

    def _units(self, first: Replay, level: list[int], alike: list[list[Tensor]]) -> list[Unit]:
        """Products of the same x on the same level, if they share weights in the same way and all or none have a bias."""
        maps = [cast(OperatorLinear, self.cell.products[name]) for name in first.products]
        together: list[list[int]] = []
        for i, one in enumerate(maps):
            for places in together:
                j = places[0]
                kind = (level[i], one.share, one.bias, one.inputs) == (level[j], maps[j].share, maps[j].bias, maps[j].inputs)
                if kind and all(map(_same, alike[i], alike[j])):
                    places.append(i)
                    break
            else:
                together.append([i])
        return [
            Unit(
                tuple(places),
                tuple(first.products[i] for i in places),
                tuple(maps[i].width(self.form.arity) for i in places),
                tuple(first.x[places[0]].shape[1:]),
                maps[places[0]].inputs == (0, 0),
                maps[places[0]].bias and maps[places[0]].inputs != (0, 0),
                maps[places[0]].share == "all",
            )
            for places in together
        ]

    def _pieces(self) -> list[Piece]:
        known: list[int] = []
        pieces = []
        for units in self.rounds:
            pieces.append(Piece(tuple(known), tuple(i for i in units if not self.units[i].constant)))
            known.extend(units)
        return [*pieces, Piece(tuple(known), (), last=True)]


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)
