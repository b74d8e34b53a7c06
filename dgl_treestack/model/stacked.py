"""Several models of one kind, such as one per seed, computed as one.

    model 0    sin(x) = y ──┐                     operators sin@0, leaves of table 0
                            ├──► one graph with
    model 1    x + y  = y ──┘                     operators Add@1, leaves of table 1

Operators and tokens of the joint graph are numbered by model, so that to an engine it is a batch like any other, of a
cell with so many times the operators. No model's numbers depend on the others'. It pays where a step is bound by how often
something is started, as on a GPU with small batches.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import Cell, OperatorLinear, Ops, Signals, State
from dgl_treestack.cells import Noise as Factors
from dgl_treestack.data import graph
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Batch
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import Noise, States, compute, draw_noise


class Stacked:
    """Models of the same configuration. Raises ConfigurationError for encoders, which have no operators to number."""

    def __init__(self, models: Sequence[Model]):
        self.models = list(models)
        self.cell = StackedCell([model.tree_cell for model in models])
        self.signature = _signature(models[0].signature, len(models))

    def __call__(
        self, batches: Sequence[Batch], engine: str, generators: Sequence[torch.Generator] | None = None
    ) -> list[Tensor]:
        """The outputs of every model (B_i,) for its own batch. generators: draw each model's dropout masks in training."""
        made = joint_graph([batch.graph for batch in batches], self.models[0])
        noise = self._noise(batches, generators) if generators else None
        states = compute(made, self.cell, engine=engine, signature=self.signature, noise=noise)
        found, start = [], 0
        for model, batch in zip(self.models, batches, strict=True):
            found.append(model.read(partial(_states_from, states, start), batch))
            start += batch.graph.num_nodes()
        return found

    def _noise(self, batches: Sequence[Batch], generators: Sequence[torch.Generator]) -> Noise:
        """Each model's own factors, one after the other."""
        every = [
            draw_noise(
                model.tree_cell, batch.source, generator, per_subtree=model.masks == "subtree", signature=model.signature
            )
            for model, batch, generator in zip(self.models, batches, generators, strict=True)
        ]
        noise = Noise({name: torch.cat([one[name] for one in every]) for name in every[0]})
        if every[0].subtree is not None:
            noise.subtree = np.concatenate([one.subtree for one in every])
        return noise


class StackedCell(Cell):
    """Cells of the same configuration as one with all their operators. Its step is theirs: only products and leaves differ."""

    def __init__(self, cells: Sequence[Cell]):
        nn.Module.__init__(self)
        self.cells = nn.ModuleList(cells)
        first = cells[0]
        self.hidden, self.dropout, self.input_size, self.form = first.hidden, first.dropout, first.input_size, first.form
        self.fields, self.signals, self.noise, self.empty = first.fields, first.signals, first.noise, first.empty
        self.settings, self.share = first.settings, "operator"
        self.rows = _rows(first)
        self.tokens = len(cells) * self.rows
        self.operators = tuple(
            replace(operator, name=_named(operator.name, i)) for i in range(len(cells)) for operator in first.operators
        )
        maps = {name: [cast(OperatorLinear, cell.products[name]) for cell in cells] for name in first.products}
        self.products = nn.ModuleDict({name: StackedLinear(own) for name, own in maps.items()})

    def leaf(self, token: Tensor, number: Tensor) -> State:
        """token: those of model i are counted from i times the rows of a model on; the last of them is for encoded numbers."""
        owner, row = token.div(self.rows, rounding_mode="floor"), token.remainder(self.rows)
        token_of_owner = torch.where(row == self.rows - 1, -1, row)
        every: list[State] = []
        rows: list[Tensor] = []
        for i, cell in enumerate(self.cells):
            rows.append(torch.nonzero(owner == i).squeeze(1))
            every.append(cast(Cell, cell).leaf(token_of_owner[rows[-1]], number[rows[-1]]))
        order = torch.cat(rows).argsort()
        return {name: torch.cat([state[name] for state in every]).index_select(0, order) for name in self.fields}

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Factors) -> tuple[State, Signals]:
        return cast(Cell, self.cells[0]).node(ops, children, inputs, noise)


class StackedLinear(OperatorLinear):
    """The linear maps of several models, each for its own operators."""

    def __init__(self, maps: Sequence[OperatorLinear]):
        nn.Module.__init__(self)
        first = maps[0]
        self.inputs, self.outputs, self.bias, self.draw = first.inputs, first.outputs, first.bias, first.draw
        self.share = "operator"
        self.maps = nn.ModuleList(maps)
        self.keys = {_named(name, i): _named(key, i) for i, own in enumerate(maps) for name, key in own.keys.items()}
        self.owners = {_named(name, i): (own, name) for i, own in enumerate(maps) for name in own.keys}

    def pair(self, operator: str) -> tuple[Tensor | None, Tensor | None]:
        own, name = self.owners[operator]
        return own.pair(name)

    def tensors(self) -> list[Tensor]:
        return [tensor for own in self.maps for tensor in cast(OperatorLinear, own).tensors()]

    def extra_repr(self) -> str:
        return f"{len(self.maps)} models"


def joint_graph(graphs: Sequence[DGLGraph], model: Model) -> DGLGraph:
    """The graphs of several models side by side, with operators and tokens numbered by model. Equations keep their root, which
    has no state. model: one of them, for the sizes of its tables."""
    counts = [one.num_nodes() for one in graphs]
    owner = np.repeat(np.arange(len(graphs)), counts)
    nodes = {name: np.concatenate([one.ndata[name].numpy() for one in graphs]) for name in ("op", "token", "number")}
    root = model.signature.index[model.signature.root] if model.signature.root else None
    is_root, is_leaf = nodes["op"] == root, nodes["op"] < 0
    nodes["op"] = nodes["op"] + np.where(is_root | is_leaf, 0, owner * len(model.signature.operators))
    rows = _rows(model.tree_cell)
    nodes["token"] = np.where(nodes["token"] < 0, rows - 1, nodes["token"]) + owner * rows
    starts = np.cumsum([0, *counts[:-1]])
    ends = [[end.numpy() + start for end in one.edges(order="eid")] for one, start in zip(graphs, starts, strict=True)]
    child, parent = (np.concatenate(column) for column in zip(*ends, strict=True))
    slot = np.concatenate([one.edata["slot"].numpy() for one in graphs])
    made = graph.from_columns(nodes, (child, parent, slot))
    if "input" in graphs[0].ndata:
        made.ndata["input"] = torch.cat([one.ndata["input"] for one in graphs])
    return made


def _states_from(states: States, start: int, nodes: Tensor) -> Tensor:
    """h of nodes that are counted from `start` on."""
    return states.of("h", nodes + start)


def _rows(cell: Cell) -> int:
    """Tokens of one model: its table's, and one for numbers that are encoded."""
    return len(cell.leaves.table) + 1


def _named(name: str, model: int) -> str:
    return f"{name}@{model}"


def _signature(signature: Signature, models: int) -> Signature:
    """The operators of every model, one model after the other. All equations have the first one's root."""
    operators = (replace(one, name=_named(one.name, i)) for i in range(models) for one in signature.operators)
    return Signature(signature.name, tuple(operators), signature.root and _named(signature.root, 0))
