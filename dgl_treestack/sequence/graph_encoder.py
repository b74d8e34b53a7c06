"""Graph networks of `dgl.nn` as encoders: all nodes of a tree send messages along its edges, round after round."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack import _dgl
from dgl_treestack.cells import CellSpec
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import whole
from dgl_treestack.sequence._tokens import Trees
from dgl_treestack.sequence.encoders import DEPTH, Encoder, draw_layers


class GraphNetwork(Encoder):
    """Base of graph networks: h_v^0 is the row of the table of v's operator or leaf, and the vector of a tree is its root's h.

    rounds: how often messages are sent, or "depth": as often as a tree is deep, at least once. positions: how many arguments
    of an operator have an edge feature of their own; later ones share the last. reverse: whether there are edges from parent to
    child, too, with features of their own, besides those from child to parent. Dropout acts on h^0.
    A subclass defines `send` and adds its modules. Raises ConfigurationError where DGL cannot be imported.
    """

    by_dgl = True

    def __init__(
        self,
        leaves: int,
        operators: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        rounds: int | str = 8,
        positions: int = 2,
        reverse: bool = False,
    ):
        super().__init__(leaves, operators, hidden, dropout=dropout)
        self.rounds = rounds if rounds == DEPTH else whole(rounds, "rounds", 1)
        self.positions, self.reverse = whole(positions, "positions", 1), reverse
        self.kinds = self.positions * (2 if reverse else 1)  # of edges

    def send(self, i: int, graph: _dgl.DGLGraph, h: Tensor, kind: Tensor) -> Tensor:
        """Return h (N, H) after round i. kind: (E,) feature of every edge, from 0 to `kinds` - 1.

        A graph of single leaves has no edges, which DGL's layers refuse or warn of.
        """
        raise NotImplementedError

    def encode(self, trees: Trees) -> Tensor:
        device = self.table.device
        if device.type == "cuda" and not _dgl.has_cuda():
            raise ConfigurationError("Graph networks need a DGL with CUDA on a GPU, and this one has none. Use device = 'cpu'.")
        child = np.flatnonzero(trees.parent >= 0)
        source, target, kind = child, trees.parent[child], np.minimum(trees.slot[child], self.positions - 1)
        if self.reverse:
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
            kind = np.concatenate([kind, self.positions + kind])
        edges = torch.from_numpy(source), torch.from_numpy(target)
        graph = _dgl.graph(edges, num_nodes=len(trees.token)).to(device)
        token, kinds, roots = (torch.from_numpy(values).to(device) for values in (trees.token, kind, trees.roots))
        h = functional.dropout(functional.embedding(token, self.table), self.dropout, self.training)
        rounds = np.maximum(trees.depths, 1) if self.rounds == DEPTH else np.full(len(trees.roots), self.rounds)
        vectors = h[roots]
        for i in range(int(rounds.max())):
            h = self.send(i, graph, h, kinds)
            vectors = torch.where(torch.from_numpy(rounds > i).to(device).unsqueeze(1), h[roots], vectors)
        return vectors

    def written(self, trees: Trees) -> tuple[np.ndarray, ...]:
        raise RuntimeError("A graph network reads no sequences, which could be of a fixed shape.")

    def read(self, tokens: Tensor, lengths: Tensor, *paths: Tensor, fixed: bool = False) -> Tensor:
        raise RuntimeError("A graph network reads no sequences.")

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the table and embeddings of edges from N(0, 1) and matrices by Glorot's uniform rule. Biases are 0, scales of
        normalisation 1."""
        super().reset_parameters(generator)
        for module in self.children():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, generator=generator)
            else:
                draw_layers(module, generator)


class GIN(GraphNetwork):
    """Graph isomorphism network (Xu et al. 2019, eq. 4.1) with edge features as in DGL's `GINEConv`:

        h_v^(i+1) = MLP_i((1 + eps_i) h_v^i + sum over edges (u, v) of relu(h_u^i + e_(kind of the edge)))
        MLP_i(z) = LayerNorm(W2 relu(W1 z + b1) + b2)

    Shapes: h, e, b (H,), W (H, H). With a fixed number of rounds every round has its own MLP and eps, else all have the same.
    Deviations: LayerNorm after the MLP in place of BatchNorm, which would make a tree's vector depend on the batch; the vector
    is the root's h, divided by H^(1/4) as in the Transformer, in place of a sum over nodes.
    """

    def __init__(self, leaves: int, operators: int, hidden: int, **settings: Any):
        super().__init__(leaves, operators, hidden, **settings)
        self.layers = nn.ModuleList()
        for _ in range(1 if isinstance(self.rounds, str) else self.rounds):
            mlp = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.LayerNorm(hidden))
            self.layers.append(_dgl.GINEConv(mlp, learn_eps=True))
        self.edges = nn.Embedding(self.kinds, hidden)

    def send(self, i: int, graph: _dgl.DGLGraph, h: Tensor, kind: Tensor) -> Tensor:
        layer: Any = self.layers[min(i, len(self.layers) - 1)]
        after: Tensor = layer(graph, h, self.edges(kind)) if len(kind) else layer.apply_func((1 + layer.eps) * h)
        return after

    def encode(self, trees: Trees) -> Tensor:
        return super().encode(trees) / self.hidden**0.25


class GatedGraph(GraphNetwork):
    """Gated graph network (Li et al. 2016) as in DGL's `GatedGraphConv`:

        a_v^(i+1) = sum over edges (u, v) of W_k h_u^i + b_k, k the kind of the edge
        h_v^(i+1) = GRU(a_v^(i+1), h_v^i), as torch's GRUCell

    Shapes: h, a, b (H,), W (H, H). All rounds have the same weights. Deviation: the vector is the root's h, not the paper's
    tanh(sum over nodes of sigma(i(h_v)) * tanh(j(h_v))), i and j networks that also read the input.
    """

    def __init__(self, leaves: int, operators: int, hidden: int, **settings: Any):
        super().__init__(leaves, operators, hidden, **settings)
        self.layer = _dgl.GatedGraphConv(hidden, hidden, n_steps=1, n_etypes=self.kinds)

    def send(self, i: int, graph: _dgl.DGLGraph, h: Tensor, kind: Tensor) -> Tensor:
        after: Tensor = self.layer(graph, h, kind) if len(kind) else self.layer.gru(torch.zeros_like(h), h)
        return after


MODELS = {
    "gin": CellSpec(GIN, "Xu 2019", "4.1", "messages along edges, summed, and a network"),
    "gated_graph": CellSpec(GatedGraph, "Li 2016", "-", "messages along edges, and a GRU"),
}
