"""Other implementations of a Child-Sum Tree-LSTM (Tai et al. 2015, eq. 2-8) on the same trees, with the same weights for all
operators.

Every node has an input: the embedding of its leaf or operator. Ours is the model `tree_lstm_child_sum` with `share = "all"` and
external input. A leaf's state is its embedding, as in all our models, while the peers also apply the cell to leaves.

`package`   pytorch-tree-lstm from PyPI (https://github.com/unbounce/pytorch-tree-lstm), to be installed by hand
`dgl`       the usual form in DGL: message, reduce with gates on the mailbox, apply, over topological frontiers
"""

import importlib.util
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from benchmarks.common import VOCABULARY
from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.expression.operators import MATH
from dgl_treestack.model.dataset import Batch


class Inputs(nn.Module):
    """An embedding for every leaf and operator, and the output of the verification task from states (N, H)."""

    def __init__(self, hidden: int):
        super().__init__()
        self.table = nn.Embedding(len(VOCABULARY) + len(MATH.operators), hidden)
        self.bias = nn.Parameter(torch.zeros(1))

    def kinds(self, graph: DGLGraph) -> Tensor:
        """(N,) rows of the table."""
        token, op = graph.ndata["token"], graph.ndata["op"]
        return torch.where(op >= 0, op + len(VOCABULARY), token.clamp(min=0))

    def outputs(self, h: Tensor, batch: Batch) -> Tensor:
        """(B,) h_left . h_right + b."""
        states = h[batch.sides]
        return (states[:, 0] * states[:, 1]).sum(1) + self.bias


class PlainDGL(nn.Module):
    """The usual form in DGL."""

    def __init__(self, hidden: int):
        super().__init__()
        self.inputs = Inputs(hidden)
        self.W = nn.Linear(hidden, 4 * hidden)
        self.U = nn.Linear(hidden, 3 * hidden, bias=False)
        self.U_f = nn.Linear(hidden, hidden, bias=False)
        self.hidden = hidden

    def forward(self, batch: Batch) -> Tensor:
        graph = batch.graph
        with graph.local_scope():
            graph.ndata["x"] = self.W(self.inputs.table(self.inputs.kinds(graph)))
            zeros = graph.ndata["x"].new_zeros(graph.num_nodes(), self.hidden)
            graph.ndata.update({"h": zeros, "c": zeros, "h_sum": zeros, "c_sum": zeros})
            _dgl.prop_nodes_topo(graph, self._message, self._reduce, apply_node_func=self._apply)
            return self.inputs.outputs(graph.ndata["h"], batch)

    def _message(self, edges: "object") -> dict[str, Tensor]:
        return {"h": edges.src["h"], "c": edges.src["c"], "x_f": edges.dst["x"][:, 3 * self.hidden :]}  # type: ignore

    def _reduce(self, nodes: "object") -> dict[str, Tensor]:
        mailbox = nodes.mailbox  # type: ignore[attr-defined]
        f = torch.sigmoid(mailbox["x_f"] + self.U_f(mailbox["h"]))
        return {"h_sum": mailbox["h"].sum(1), "c_sum": (f * mailbox["c"]).sum(1)}

    def _apply(self, nodes: "object") -> dict[str, Tensor]:
        data = nodes.data  # type: ignore[attr-defined]
        i, o, u = (data["x"][:, : 3 * self.hidden] + self.U(data["h_sum"])).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + data["c_sum"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}


class Package(nn.Module):
    """pytorch-tree-lstm. Node and edge orders are computed before, as it recommends."""

    def __init__(self, hidden: int):
        super().__init__()
        import treelstm

        self.inputs = Inputs(hidden)
        self.cell = treelstm.TreeLSTM(hidden, hidden)

    @staticmethod
    def prepare(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Node order, adjacency list and edge order of a batch."""
        import treelstm

        source, target = batch.graph.edges()
        adjacency = torch.stack([target, source], 1)
        order, edge_order = treelstm.calculate_evaluation_orders(adjacency.numpy(), batch.graph.num_nodes())
        return torch.from_numpy(order), adjacency, torch.from_numpy(edge_order)

    def forward(self, batch: Batch, prepared: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        order, adjacency, edge_order = prepared
        features = self.inputs.table(self.inputs.kinds(batch.graph))
        h, _ = self.cell(features, order, adjacency, edge_order)
        return self.inputs.outputs(h, batch)


def _plain_dgl(hidden: int, batches: Sequence[Batch]) -> tuple[nn.Module, Callable[[int], Tensor]]:
    module = PlainDGL(hidden)
    return module, lambda i: module(batches[i % len(batches)])


def _package(hidden: int, batches: Sequence[Batch]) -> tuple[nn.Module, Callable[[int], Tensor]]:
    module, prepared = Package(hidden), [Package.prepare(batch) for batch in batches]
    return module, lambda i: module(batches[i % len(batches)], prepared[i % len(batches)])


# name -> a function that returns a module, and its forward function, which takes the index of a batch
PEERS = {"plain DGL": _plain_dgl}
if importlib.util.find_spec("treelstm"):
    PEERS["pytorch-tree-lstm"] = _package
