"""The pieces of a step as kernels, functions of lists of tensors, to be run as they are or compiled:

    ahead   [buffers (R, *shape)..., children's rows (n * A,), external input, noise..., y..., where what it computes goes...]
    back    [the same without these..., gradients of what the piece computes...]

A kernel gathers the children itself and writes its x or the state where they belong, so that nothing is copied twice.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear
from dgl_treestack.cells.memory import stack
from dgl_treestack.propagate.levels.names import Kernel, name_of
from dgl_treestack.propagate.levels.native import native
from dgl_treestack.propagate.levels.pieces import Piece, Split, Unit

# A kernel, examples of its tensors, of each how long it is: so many for every node, or 0, as long as the buffers; its name, if
# it is asked for.
Build = Callable[[Kernel, list[Tensor], list[int], Callable[[], str | None]], Kernel]


class Kernels:
    """The kernels of a cell's step of one form. reads: see `Split.reads`."""

    def __init__(self, split: Split, build: Build, dtype: torch.dtype, device: torch.device):
        self.split, self.build, self.dtype, self.device = split, build, dtype, device
        self.reads = [split.reads(piece) for piece in split.pieces]
        self.has_back = False

    @cached_property
    def step(self) -> Any:
        """The step as native loops take it, with the kernels of the way ahead."""
        cpp, split = native(), self.split
        units = [self._unit(unit) for unit in split.units]
        pieces = [cpp.Piece(piece.known, piece.makes, reads) for piece, reads in zip(split.pieces, self.reads, strict=True)]
        step = cpp.Step(len(split.cell.fields), len(split.given_shapes), units, pieces, split.rounds)
        for number in self._numbers():
            step.set_ahead(number, self._wrapped(self.ahead(number)))
        return step

    def need_back(self) -> None:
        """Give the step the kernels of the way back, unless it has them."""
        if not self.has_back:
            for number in self._numbers():
                self.step.set_back(number, self._wrapped(self.back(number)))
            self.has_back = True

    def _numbers(self) -> list[int]:
        """Of the pieces that compute something."""
        return [number for number, piece in enumerate(self.split.pieces) if piece.makes or piece.last]

    def _unit(self, unit: Unit) -> Any:
        """With the places of its parameters among those of the cell's products, by operator."""
        cell = self.split.cell
        places = {id(parameter): i for i, parameter in enumerate(tensors_of(cell))}
        weights: list[list[int]] = []
        biases: list[list[int]] = []
        for operator in cell.operators:
            pairs = [cast(OperatorLinear, cell.products[name]).pair(operator.name) for name in unit.names]
            for own, column in zip((weights, biases), zip(*pairs, strict=True), strict=True):
                own.append([places[id(one)] for one in column if one is not None])
        return native().Unit(unit.tail, unit.x_shape, unit.y_shape, unit.constant, unit.biased, unit.shared, weights, biases)

    def _wrapped(self, kernel: Kernel) -> Any:
        return kernel if isinstance(kernel, native().Kernel) else native().Kernel(kernel)

    def ahead(self, number: int) -> Kernel:
        """Of a piece, built anew."""
        piece = self.split.pieces[number]
        return self._build(_ahead(self.split, piece), piece, partial(self._own_rows, piece))

    def back(self, number: int) -> Kernel:
        """Its gradient's, built anew."""
        piece = self.split.pieces[number]
        shapes = list(self.split.cell.fields.values()) if piece.last else [self.split.units[i].tail for i in piece.makes]
        kernel = _back(self.split, piece, self.reads[number])
        return self._build(kernel, piece, lambda n: [self._example(n, shape) for shape in shapes])

    def _own_rows(self, piece: Piece, nodes: int) -> list[Tensor]:
        """Where x or the state goes: views, as they will be."""
        if piece.last:
            return [row for shape in self.split.cell.fields.values() for row in by_row(self._example(nodes, shape))]
        units = [self.split.units[i] for i in piece.makes]
        return [row for unit in units for row in by_row(own_x(unit, self._example(nodes, unit.x_shape)))]

    def _build(self, kernel: Kernel, piece: Piece, last: Callable[[int], list[Tensor]]) -> Kernel:
        split, fields = self.split, self.split.cell.fields
        sizes = [shape for unit in split.units for shape in (unit.y_shape, unit.tail, unit.x_shape, unit.widths)]
        rows, edges, nodes = _unlike([*split.given_shapes, *sizes], split.form.arity)
        shapes = [*split.given_shapes[len(fields) :], *(split.units[i].y_shape for i in piece.known)]
        of_nodes = [*(self._example(nodes, shape) for shape in shapes), *last(nodes)]
        buffers = [self._example(rows, shape) for shape in fields.values()]
        children = torch.arange(edges, device=self.device) % rows
        counts = [0] * len(fields) + [split.form.arity] + [1] * len(of_nodes)
        examples = [*buffers, children, *of_nodes]
        return self.build(kernel, examples, counts, partial(name_of, split.cell, kernel, examples, counts))

    def _example(self, count: int, shape: Sequence[int]) -> Tensor:
        return torch.rand(count, *shape, dtype=self.dtype, device=self.device)


def tensors_of(cell: Cell) -> list[Tensor]:
    """Of all its products."""
    return [own for linear in cell.products.values() for own in cast(OperatorLinear, linear).tensors()]


def _unlike(shapes: Sequence[Sequence[int]], arity: int) -> tuple[int, int, int]:
    """Numbers of rows, edges and nodes for examples, unlike any size of a tensor, so that a tracer cannot mistake them."""
    sizes = {size for shape in shapes for size in (*shape, torch.Size(shape).numel())}
    nodes = next(n for n in range(1009, 10**6, 2) if not {n, n * arity, 2 * n * arity + 1} & sizes)
    return 2 * nodes * arity + 1, nodes * arity, nodes


def _ahead(split: Split, piece: Piece) -> Kernel:
    """Writes x of what the piece makes, or the state."""

    def kernel(tensors: list[Tensor]) -> Sequence[Tensor]:
        given, rest = _gathered(split, tensors)
        found = split.compute(piece, given, rest[: len(piece.known)])
        own = [row for value in found for row in by_row(value)]
        for row, value in zip(rest[len(piece.known) :], own, strict=True):
            row.copy_(value)
        return []

    return kernel


def by_row(state: Tensor) -> Sequence[Tensor]:
    """A field (n, *shape) of nodes as its rows (n, W), where it has some."""
    return state.unbind(1) if state.dim() == 3 else (state,)


def own_x(unit: Unit, x: Tensor) -> Tensor:
    """x as it is kept without the one at its end."""
    return x[..., :-1] if unit.biased else x


def _back(split: Split, piece: Piece, reads: Sequence[int]) -> Kernel:
    """Gradients at the positions that the piece reads."""

    def kernel(tensors: list[Tensor]) -> Sequence[Tensor]:
        given, rest = _gathered(split, tensors)
        known = len(piece.known)
        found = split.gradients(piece, given, rest[:known], rest[known:])
        return [gradient for gradient in (found[i] for i in reads) if gradient is not None]

    return kernel


def _gathered(split: Split, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """[children..., external input, noise...] and the rest."""
    fields, form = len(split.cell.fields), split.form
    rows, buffers = tensors[fields], tensors[:fields]
    if stack.is_by_row():
        by_child = rows.view(-1, form.arity).unbind(1)
        children = [torch.stack([buffer.index_select(0, one) for one in by_child], 1) for buffer in buffers]
    else:
        children = [buffer.index_select(0, rows).unflatten(0, (-1, form.arity)) for buffer in buffers]
    end = fields + 1 + form.external + len(form.noise)
    return [*children, *tensors[fields + 1 : end]], tensors[end:]


def plain(kernel: Kernel, examples: list[Tensor], per_node: list[int], name: Callable[[], str | None]) -> Kernel:
    """A `Build` that leaves a kernel as it is."""
    return kernel
