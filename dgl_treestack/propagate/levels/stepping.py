"""A step taken piece by piece. Every piece is a kernel, a function of a list of tensors, run as it is or compiled:

    ahead   [buffers (R, *shape)..., children's rows (n * A,), external input, noise..., y..., and for the state its rows...]
    back    [the same without the state's rows..., gradients of what the piece computes...]

A kernel gathers the children itself; the last piece writes the state where it belongs, so that nothing is copied twice.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from dgl_treestack.cells import Cell
from dgl_treestack.propagate.levels.pieces import Form, Piece, Split
from dgl_treestack.propagate.levels.plan import Chunk
from dgl_treestack.propagate.levels.products import Products
from dgl_treestack.propagate.levels.sweep import Buffers, Work

Kernel = Callable[[list[Tensor]], Sequence[Tensor]]
# A kernel, examples of its tensors, and of each how long it is: so many for every node, or 0, as long as the buffers.
Build = Callable[[Kernel, list[Tensor], list[int]], Kernel]


class Kernels:
    """The kernels of a cell's step of one form, built when they are first needed. reads: see `Split.reads`."""

    def __init__(self, split: Split, build: Build, dtype: torch.dtype, device: torch.device):
        self.split, self.build, self.dtype, self.device = split, build, dtype, device
        self.reads = [split.reads(piece) for piece in split.pieces]
        self.built: dict[tuple[int, bool], Kernel] = {}

    def ahead(self, number: int) -> Kernel:
        if (number, True) not in self.built:
            piece = self.split.pieces[number]
            own = self._of_state() if piece.last else []
            self.built[number, True] = self._build(_ahead(self.split, piece), piece, own)
        return self.built[number, True]

    def back(self, number: int) -> Kernel:
        if (number, False) not in self.built:
            piece = self.split.pieces[number]
            arriving = self._of_state() if piece.last else [self.split.tails[i] for i in piece.makes]
            self.built[number, False] = self._build(_back(self.split, piece, self.reads[number]), piece, arriving)
        return self.built[number, False]

    def _of_state(self) -> list[tuple[int, ...]]:
        return list(self.split.cell.fields.values())

    def _build(self, kernel: Kernel, piece: Piece, more: Sequence[tuple[int, ...]]) -> Kernel:
        split, fields = self.split, len(self.split.cell.fields)
        rows, edges, nodes = _unlike([*split.given_shapes, *split.y_shapes, *more], split.form.arity)
        node_shapes = [*split.given_shapes[fields:], *(split.y_shapes[i] for i in piece.known), *more]
        examples = [
            *(self._example(rows, shape) for shape in split.cell.fields.values()),
            torch.arange(edges, device=self.device) % rows,
            *(self._example(nodes, shape) for shape in node_shapes),
        ]
        return self.build(kernel, examples, [0] * fields + [split.form.arity] + [1] * len(node_shapes))

    def _example(self, count: int, shape: Sequence[int]) -> Tensor:
        return torch.rand(count, *shape, dtype=self.dtype, device=self.device)


def _unlike(shapes: Sequence[Sequence[int]], arity: int) -> tuple[int, int, int]:
    """Numbers of rows, edges and nodes for examples, unlike any size of a tensor, so that a tracer cannot mistake them."""
    sizes = {size for shape in shapes for size in (*shape, torch.Size(shape).numel())}
    nodes = next(n for n in range(1009, 10**6, 2) if not {n, n * arity, 2 * n * arity + 1} & sizes)
    return 2 * nodes * arity + 1, nodes * arity, nodes


def _ahead(split: Split, piece: Piece) -> Kernel:
    """x of what the piece makes; the last piece returns nothing and writes the state."""

    def kernel(tensors: list[Tensor]) -> Sequence[Tensor]:
        given, rest = _gathered(split, tensors)
        found = split.compute(piece, given, rest[: len(piece.known)])
        if not piece.last:
            return found
        for rows, value in zip(rest[len(piece.known) :], found, strict=True):
            rows.copy_(value)
        return []

    return kernel


def _back(split: Split, piece: Piece, reads: Sequence[int]) -> Kernel:
    """Gradients at the positions that the piece reads; those of children by edge, (n * A, *shape)."""

    def kernel(tensors: list[Tensor]) -> Sequence[Tensor]:
        given, rest = _gathered(split, tensors)
        known = len(piece.known)
        found = split.gradients(piece, given, rest[:known], rest[known:])
        chosen = [(i, found[i]) for i in reads]
        return [g.flatten(0, 1) if i < len(split.cell.fields) else g for i, g in chosen if g is not None]

    return kernel


def _gathered(split: Split, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """[children..., external input, noise...] and the rest."""
    fields, form = len(split.cell.fields), split.form
    children = [buffer.index_select(0, tensors[fields]).unflatten(0, (-1, form.arity)) for buffer in tensors[:fields]]
    end = fields + 1 + form.external + len(form.noise)
    return [*children, *tensors[fields + 1 : end]], tensors[end:]


def plain(kernel: Kernel, examples: list[Tensor], per_node: list[int]) -> Kernel:
    """A `Build` that leaves a kernel as it is."""
    return kernel


class Kept(NamedTuple):
    """What the way back needs: what every piece was given, x and y of every product by place."""

    given: list[Tensor]
    x: dict[int, Tensor]
    y: dict[int, Tensor]


_known: "WeakKeyDictionary[Cell, dict[tuple, Kernels]]" = WeakKeyDictionary()


class Stepping:
    """A `Stepper` that takes steps piece by piece. No signals."""

    def __init__(self, work: Work, products: Products, build: Build):
        self.work, self.products, self.build = work, products, build
        self.fields = list(work.cell.fields)
        self.external, self.noise = work.inputs is not None, tuple(work.noise)

    def ahead(self, chunk: Chunk, buffers: Buffers, recording: bool) -> Kept | None:
        kernels = self._kernels(chunk.arity, buffers["h"])
        split, count = kernels.split, chunk.stop - chunk.start
        inputs, noise = self.work.of(chunk)
        external = [] if inputs is None else [inputs]
        given = [*(buffers[name] for name in self.fields), chunk.children, *external, *noise.values()]
        x: dict[int, Tensor] = {i: buffers["h"].new_empty(count, *split.tails[i]) for i in split.constant}
        y: dict[int, Tensor] = {}
        for number, (piece, places) in enumerate(zip(split.pieces, split.rounds, strict=False)):
            if piece.makes:
                made = kernels.ahead(number)([*given, *(y[i] for i in piece.known)])
                x.update(zip(piece.makes, made, strict=True))
            y.update((i, self.products.ahead(split.products[i], chunk, x[i])) for i in places)
        own = [buffers[name][chunk.start : chunk.stop] for name in self.fields]
        kernels.ahead(len(split.rounds))([*given, *(y[i] for i in split.pieces[-1].known), *own])
        return Kept(given, x, y) if recording else None

    def back(self, chunk: Chunk, kept: Kept, buffers: Buffers, gradients: Buffers, of_inputs: Tensor | None) -> None:
        kernels = self._kernels(chunk.arity, buffers["h"])
        split, of_y = kernels.split, dict[int, Tensor]()
        arriving = [gradients[name][chunk.start : chunk.stop] for name in self.fields]
        for number in range(len(split.rounds), -1, -1):
            piece = split.pieces[number]
            if piece.makes or piece.last:
                found = kernels.back(number)([*kept.given, *(kept.y[i] for i in piece.known), *arriving])
                for position, gradient in zip(kernels.reads[number], found, strict=True):
                    self._add(position, gradient, chunk, piece, gradients, of_inputs, of_y)
            if number:
                arriving = [self._through(split, i, chunk, kept, of_y) for i in split.rounds[number - 1]]
                arriving = [g for i, g in zip(split.rounds[number - 1], arriving, strict=True) if i not in split.constant]

    def _add(
        self,
        position: int,
        gradient: Tensor,
        chunk: Chunk,
        piece: Piece,
        gradients: Buffers,
        of_inputs: Tensor | None,
        of_y: dict[int, Tensor],
    ) -> None:
        """Put a gradient of what a piece read where it belongs."""
        of_product = position - len(self.fields) - self.external - len(self.noise)
        if position < len(self.fields):
            gradients[self.fields[position]].index_add_(0, chunk.children, gradient)
        elif of_product >= 0:
            place = piece.known[of_product]
            of_y[place] = of_y[place] + gradient if place in of_y else gradient
        elif of_inputs is not None:
            of_inputs.index_add_(0, chunk.nodes, gradient)

    def _through(self, split: Split, place: int, chunk: Chunk, kept: Kept, of_y: dict[int, Tensor]) -> Tensor:
        """The gradient of a product's x from that of its y; zeros where nothing depends on it."""
        if place not in of_y:
            return torch.zeros_like(kept.x[place])
        return self.products.back(split.products[place], chunk, kept.x[place], of_y[place])

    def _kernels(self, arity: int, like: Tensor) -> Kernels:
        cell = self.work.cell
        known = _known.setdefault(cell, {})
        key = (arity, self.external, self.noise, like.dtype, like.device, self.build)
        if key not in known:
            known[key] = Kernels(Split(cell, Form(arity, self.external, self.noise)), self.build, like.dtype, like.device)
        return known[key]
