"""Steps taken piece by piece, every piece and its gradient a kernel (`building`). The loops over chunks, pieces and products
are in C++ (`native.cpp`); what they need is put together here."""

from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear
from dgl_treestack.propagate.levels.building import Build, Kernels, tensors_of
from dgl_treestack.propagate.levels.native import native
from dgl_treestack.propagate.levels.pieces import Form, Split
from dgl_treestack.propagate.levels.plan import Plan
from dgl_treestack.propagate.levels.products import parameters_of
from dgl_treestack.propagate.levels.sweep import Buffers, Work

WORTH_JOINING = 64  # rows of a map from which on a joint copy of its weight and bias pays


class _Made:
    """What is made for a cell once, as long as these are the tensors of its products: kernels by form; by operator its number,
    and which of the tensors are its own."""

    def __init__(self, cell: Cell, tensors: list[Tensor]):
        self.tensors = [*map(id, tensors)]
        self.kernels: dict[tuple, Kernels] = {}
        self.number = {operator.name: i for i, operator in enumerate(cell.operators)}
        place = {one: i for i, one in enumerate(self.tensors)}
        self.places = {
            operator.name: [place[id(own)] for own in parameters_of(cell, [operator.name]).values()]
            for operator in cell.operators
        }


_known: "WeakKeyDictionary[Cell, _Made]" = WeakKeyDictionary()


def worth_joining(cell: Cell, plan: Plan) -> bool:
    """Whether maps of a cell have so many rows that joint ones pay."""
    maps = [len({cast(OperatorLinear, one).keys[name] for name in plan.operators}) for one in cell.products.values()]
    return plan.rows > WORTH_JOINING * max(maps, default=0)


class Stepping:
    """A `Stepper` that takes steps piece by piece. No signals. It holds no buffers: they are what autograd has as results, and
    would keep its graph alive for ever."""

    def __init__(self, work: Work, build: Build):
        self.work, self.joint = work, worth_joining(work.cell, work.plan)
        tensors = tensors_of(work.cell)
        made = _made(work.cell, tensors)
        arities = dict.fromkeys(chunk.arity for chunk in work.plan.chunks)
        self.kernels = {arity: _kernels(made.kernels, work, arity, build) for arity in arities}
        self.used = sorted(set().union(*(made.places[operator] for operator in work.plan.operators)))
        self.parameters = [tensors[place] for place in self.used]
        steps = {arity: kernels.step for arity, kernels in self.kernels.items()}
        self.sweep = native().Sweep(steps, _chunks(work, made.number), tensors, self.joint)

    def ahead(self, buffers: Buffers, recording: bool) -> None:
        inputs = [] if self.work.inputs is None else [self.work.inputs]
        memory, mark = self.work.memory, self.work.memory.mark()
        block = memory.empty(self.sweep.room(recording))
        self.sweep.ahead(list(buffers.values()), [*inputs, *self.work.noise.values()], block, recording)
        if not recording:
            memory.back_to(mark)

    def back(self, buffers: Buffers, gradients: Buffers, of_inputs: Tensor | None) -> None:
        for kernels in self.kernels.values():
            kernels.need_back()
        waiting = not self.joint  # for the end, what may lie in the block
        block = self.work.memory.empty(self.sweep.room(waiting))
        self.sweep.back(list(buffers.values()), list(gradients.values()), of_inputs, block, waiting)

    def settle(self) -> list[Tensor | None]:
        found = self.sweep.settle()
        return [found[place] for place in self.used]


def _made(cell: Cell, tensors: list[Tensor]) -> _Made:
    """Anew where tensors are others now, or the same ones in other places."""
    found = _known.get(cell)
    if found is None or found.tensors != [*map(id, tensors)]:
        found = _known[cell] = _Made(cell, tensors)
    return found


def _chunks(work: Work, number: dict[str, int]) -> list[Any]:
    """The chunks of a plan as native loops take them."""
    return [
        native().Chunk(
            chunk.arity,
            chunk.start,
            chunk.stop - chunk.start,
            chunk.children,
            chunk.nodes,
            [number[operator] for operator in chunk.operators],
            chunk.sizes,
        )
        for chunk in work.plan.chunks
    ]


def _kernels(known: dict[tuple, Kernels], work: Work, arity: int, build: Build) -> Kernels:
    """Of the cell for nodes of this arity; made once."""
    form = Form(arity, work.inputs is not None, tuple(work.noise))
    key = (form, work.memory.dtype, work.memory.device, build)
    if key not in known:
        with torch.inference_mode(False):  # what is kept is for training too
            known[key] = Kernels(Split(work.cell, form), build, work.memory.dtype, work.memory.device)
    return known[key]
