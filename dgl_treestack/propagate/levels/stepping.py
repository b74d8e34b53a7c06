"""A step taken piece by piece, every piece and its gradient a kernel; see `building`."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from torch import Tensor

from dgl_treestack.cells import Cell
from dgl_treestack.propagate.levels.building import Build, Kernels, by_row, own_x
from dgl_treestack.propagate.levels.pieces import Form, Piece, Split, Unit
from dgl_treestack.propagate.levels.plan import Chunk
from dgl_treestack.propagate.levels.products import Products
from dgl_treestack.propagate.levels.sweep import Buffers, Work


class Kept(NamedTuple):
    """What the way back needs: external input and noise of the chunk, x and y by unit of products. No buffers: they are what
    autograd has as results, and holding these would keep the graph alive for ever."""

    own: list[Tensor]
    x: dict[int, Tensor]
    y: dict[int, Tensor]


_known: "WeakKeyDictionary[Cell, dict[tuple, Kernels]]" = WeakKeyDictionary()


class Stepping:
    """A `Stepper` that takes steps piece by piece. No signals."""

    def __init__(self, work: Work, products: Products, build: Build):
        self.work, self.products, self.build = work, products, build
        self.fields = list(work.cell.fields)
        self.external, self.noise = work.inputs is not None, tuple(work.noise)
        self.of_arity: dict[int, Kernels] = {}

    def ahead(self, chunk: Chunk, buffers: Buffers, recording: bool) -> Kept | None:
        kernels = self._kernels(chunk.arity)
        split, count = kernels.split, chunk.stop - chunk.start
        inputs, noise = self.work.of(chunk)
        of_chunk = [*([] if inputs is None else [inputs]), *noise.values()]
        given = [*(buffers[name] for name in self.fields), chunk.children, *of_chunk]
        x = {i: buffers["h"].new_empty(count, *unit.tail) for i, unit in enumerate(split.units) if unit.constant}
        y: dict[int, Tensor] = {}
        for number, (piece, units) in enumerate(zip(split.pieces, split.rounds, strict=False)):
            if piece.makes:
                rows: list[Tensor] = []
                for i in piece.makes:
                    x[i], own = self._empty_x(split.units[i], count)
                    rows.extend(by_row(own))
                kernels.ahead(number)([*given, *(y[i] for i in piece.known), *rows])
            y.update((i, self.products.ahead(split.units[i].names, chunk, x[i])) for i in units)
        rows = [row for name in self.fields for row in by_row(buffers[name][chunk.start : chunk.stop])]
        kernels.ahead(len(split.rounds))([*given, *(y[i] for i in split.pieces[-1].known), *rows])
        return Kept(of_chunk, x, y) if recording else None

    def _empty_x(self, unit: Unit, count: int) -> tuple[Tensor, Tensor]:
        """For x: as products read it and as a kernel writes it, without the one at its end."""
        x = self.work.memory.empty(count, *unit.x_shape)
        own = own_x(unit, x)
        if not self.products.joint:
            return own, own
        if unit.biased:
            x.select(-1, -1).fill_(1.0)
        return x, own

    def back(self, chunk: Chunk, kept: Kept, buffers: Buffers, gradients: Buffers, of_inputs: Tensor | None) -> None:
        kernels = self._kernels(chunk.arity)
        split, of_y = kernels.split, dict[int, Tensor]()
        given = [*(buffers[name] for name in self.fields), chunk.children, *kept.own]
        arriving = [gradients[name][chunk.start : chunk.stop] for name in self.fields]
        for number in range(len(split.rounds), -1, -1):
            piece = split.pieces[number]
            if piece.makes or piece.last:
                found = kernels.back(number)([*given, *(kept.y[i] for i in piece.known), *arriving])
                for position, gradient in zip(kernels.reads[number], found, strict=True):
                    self._add(position, gradient, chunk, piece, gradients, of_inputs, of_y)
            if number:
                through = [(i, self._through(split, i, chunk, kept, of_y)) for i in split.rounds[number - 1]]
                arriving = [gradient for i, gradient in through if not split.units[i].constant]

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
            gradients[self.fields[position]].index_add_(0, chunk.children, gradient.flatten(0, 1))
        elif of_product >= 0:
            unit = piece.known[of_product]
            of_y[unit] = of_y[unit] + gradient if unit in of_y else gradient
        elif of_inputs is not None:
            of_inputs.index_add_(0, chunk.nodes, gradient)

    def _through(self, split: Split, unit: int, chunk: Chunk, kept: Kept, of_y: dict[int, Tensor]) -> Tensor:
        """The gradient of x from that of y; zeros where nothing depends on it."""
        if unit not in of_y:
            return kept.x[unit].new_zeros(len(kept.x[unit]), *split.units[unit].tail)
        return self.products.back(split.units[unit].names, chunk, kept.x[unit], of_y[unit])

    def _kernels(self, arity: int) -> Kernels:
        """Of the cell for nodes of this arity; made once for its life."""
        if arity not in self.of_arity:
            cell, memory = self.work.cell, self.work.memory
            known = _known.setdefault(cell, {})
            key = (arity, self.external, self.noise, memory.dtype, memory.device, self.build)
            if key not in known:
                split = Split(cell, Form(arity, self.external, self.noise))
                known[key] = Kernels(split, self.build, memory.dtype, memory.device)
            self.of_arity[arity] = known[key]
        return self.of_arity[arity]
