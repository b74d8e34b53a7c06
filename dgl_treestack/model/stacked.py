"""Several models of one configuration, such as one per seed, computed as one.

    model 0    sin(x) = y ──┐                     operators sin@0, leaves of table 0
                            ├──► one graph with
    model 1    x + y  = y ──┘                     operators Add@1, leaves of table 1

Operators and tokens of the joint graph are numbered by model, so that an engine sees an ordinary batch, of a cell with that
many times the operators. No model's numbers depend on the others'. Stacking is faster where the time of a step is bound by
the number of kernel launches, as on a GPU with small batches.
"""

from collections.abc import Sequence
from dataclasses import replace
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
from dgl_treestack.propagate import Noise, compute, draw_noise


class Stacked:
    """Models of the same configuration. Raises ConfigurationError for encoders, which have no operators to number."""

    def __init__(self, models: Sequence[Model]):
        self.models = list(models)
        self.cell = StackedCell([model.tree_cell for model in models])
        signature = models[0].signature
        operators = [replace(op, name=f"{op.name}@{i}") for i in range(len(models)) for op in signature.operators]
        # The equations of all models have the root of model 0.
        self.signature = Signature(signature.name, tuple(operators), signature.root and f"{signature.root}@0")

    def __call__(
        self, batches: Sequence[Batch], engine: str, generators: Sequence[torch.Generator] | None = None
    ) -> list[Tensor]:
        """Return the outputs of every model (B_i,) for its batch. generators: draw each model's dropout masks in training."""
        noise = None
        if generators:
            noises = [
                draw_noise(
                    model.tree_cell, batch.source, generator, per_subtree=model.masks == "subtree", signature=model.signature
                )
                for model, batch, generator in zip(self.models, batches, generators, strict=True)
            ]
            noise = Noise({name: torch.cat([factors[name] for factors in noises]) for name in noises[0]})
            if noises[0].subtree is not None:
                noise.subtree = np.concatenate([factors.subtree for factors in noises])
        joint = joint_graph([batch.graph for batch in batches], self.models[0])
        states = compute(joint, self.cell, engine=engine, signature=self.signature, noise=noise)
        outputs, start = [], 0
        for model, batch in zip(self.models, batches, strict=True):
            outputs.append(model.read(lambda nodes, start=start: states.of("h", nodes + start), batch))  # type: ignore[misc]
            start += batch.graph.num_nodes()
        return outputs


class StackedCell(Cell):
    """Cells of the same configuration as one with all their operators. Only products and leaves differ between them."""

    def __init__(self, cells: Sequence[Cell]):
        nn.Module.__init__(self)
        self.cells = nn.ModuleList(cells)
        first = cells[0]
        self.hidden, self.dropout, self.input_size, self.form = first.hidden, first.dropout, first.input_size, first.form
        self.fields, self.signals, self.noise, self.empty = first.fields, first.signals, first.noise, first.empty
        self.settings, self.share = first.settings, "operator"
        self.rows = len(first.leaves.table) + 1  # tokens per model: its table's, and the last for encoded numbers
        self.tokens = len(cells) * self.rows
        self.operators = tuple(replace(op, name=f"{op.name}@{i}") for i in range(len(cells)) for op in first.operators)
        products = {name: [cast(OperatorLinear, cell.products[name]) for cell in cells] for name in first.products}
        self.products = nn.ModuleDict({name: StackedLinear(maps) for name, maps in products.items()})

    def leaf(self, token: Tensor, number: Tensor) -> State:
        """Compute every leaf with the cell of its model. token: those of model i start at i * rows."""
        model, row = token.div(self.rows, rounding_mode="floor"), token.remainder(self.rows)
        token_of_model = torch.where(row == self.rows - 1, -1, row)
        states: list[State] = []
        nodes: list[Tensor] = []
        for i, cell in enumerate(self.cells):
            nodes.append(torch.nonzero(model == i).squeeze(1))
            states.append(cast(Cell, cell).leaf(token_of_model[nodes[-1]], number[nodes[-1]]))
        order = torch.cat(nodes).argsort()
        return {name: torch.cat([state[name] for state in states]).index_select(0, order) for name in self.fields}

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Factors) -> tuple[State, Signals]:
        """Compute a frontier with the step of the first cell, which is that of all."""
        return cast(Cell, self.cells[0]).node(ops, children, inputs, noise)


class StackedLinear(OperatorLinear):
    """The linear maps of several models, each for its own operators."""

    def __init__(self, maps: Sequence[OperatorLinear]):
        nn.Module.__init__(self)
        first = maps[0]
        self.inputs, self.outputs, self.bias, self.draw = first.inputs, first.outputs, first.bias, first.draw
        self.share = "operator"
        self.maps = nn.ModuleList(maps)
        self.keys = {f"{name}@{i}": f"{key}@{i}" for i, linear in enumerate(maps) for name, key in linear.keys.items()}
        self.owners = {f"{name}@{i}": (linear, name) for i, linear in enumerate(maps) for name in linear.keys}

    def pair(self, operator: str) -> tuple[Tensor | None, Tensor | None]:
        linear, name = self.owners[operator]
        return linear.pair(name)

    def tensors(self) -> list[Tensor]:
        return [tensor for linear in self.maps for tensor in cast(OperatorLinear, linear).tensors()]

    def extra_repr(self) -> str:
        return f"{len(self.maps)} models"


def joint_graph(graphs: Sequence[DGLGraph], model: Model) -> DGLGraph:
    """Join the graphs of several models, one per model, with operators and tokens numbered by model.

    Equations keep their root, which has no state. model: one of the models, for the sizes of its tables.
    """
    counts = [single.num_nodes() for single in graphs]
    owner = np.repeat(np.arange(len(graphs)), counts)
    nodes = {name: np.concatenate([single.ndata[name].numpy() for single in graphs]) for name in ("op", "token", "number")}
    root = model.signature.index[model.signature.root] if model.signature.root else None
    is_root, is_leaf = nodes["op"] == root, nodes["op"] < 0
    nodes["op"] = nodes["op"] + np.where(is_root | is_leaf, 0, owner * len(model.signature.operators))
    rows = len(model.tree_cell.leaves.table) + 1
    nodes["token"] = np.where(nodes["token"] < 0, rows - 1, nodes["token"]) + owner * rows
    starts = np.cumsum([0, *counts[:-1]])
    ends = [[end.numpy() + start for end in single.edges(order="eid")] for single, start in zip(graphs, starts, strict=True)]
    child, parent = (np.concatenate(column) for column in zip(*ends, strict=True))
    slot = np.concatenate([single.edata["slot"].numpy() for single in graphs])
    joint = graph.from_columns(nodes, (child, parent, slot))
    if "input" in graphs[0].ndata:
        joint.ndata["input"] = torch.cat([single.ndata["input"] for single in graphs])
    return joint
