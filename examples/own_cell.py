"""A custom recursive cell: defined, registered by name, compared between engines, trained until the loss has fallen.

python examples/own_cell.py --epochs 3
"""

from typing import Any

import torch
import tyro
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from dgl_treestack import Cell, GraphDataLoader, Model, TreeDataset, register_cell
from dgl_treestack.cells import Noise, Ops, Signals, State
from dgl_treestack.data import graph
from dgl_treestack.propagate import propagate


@register_cell("residual_tree", adds="the mean of the children and a correction")
class ResidualTree(Cell):
    """h = mean_k h_k + g * tanh(W [h_1; ...; h_A] + b), g = sigma(V [h_1; ...; h_A] + c), W, V, b, c per operator.

    Shapes: h (H,), W and V (H, A H), b and c (H,).
    """

    def __init__(self, *sizes: Any, **common: Any):
        super().__init__(*sizes, **common)
        self.signals = {"gate": (self.hidden,)}
        self.add_product("correction", self.joined(self.hidden), (self.hidden, 0))
        self.add_product("gate", self.joined(self.hidden), (self.hidden, 0))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        """One step for a frontier of nodes. `ops.linear` applies the weights of every node's operator."""
        x = self.join(children["h"], inputs)
        gate = torch.sigmoid(ops.linear("gate", x))
        h = children["h"].mean(1) + gate * torch.tanh(ops.linear("correction", x))
        return {"h": h}, {"gate": gate}


def main(epochs: int = 3, hidden: int = 20) -> None:
    """Compare the engines, then train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = TreeDataset("bundled:quickstart/train")
    model = Model.build("residual_tree", hidden, seed=0)

    batch, _ = data.collate([data[i] for i in range(16)])
    fast, plain = (propagate(batch.clone(), model.tree_cell, engine=engine) for engine in ("levels", "topo"))
    print(f"levels and topo differ by at most {(fast - plain).abs().max():.1e}")
    model.states(batch)
    inner = batch.ndata["op"] >= 0
    print(f"mean gate at {int(inner.sum())} operators of {len(graph.roots(batch))} trees: "
          f"{batch.ndata['signal/gate'][inner].mean():.3f}")  # fmt: skip

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = GraphDataLoader(data, batch_size=64, shuffle=True, collate_fn=data.collate)
    for epoch in range(1, epochs + 1):
        losses = []
        for trees, target in loader:
            loss = binary_cross_entropy_with_logits(model(trees), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: training loss {sum(losses) / len(losses):.3f} (0.693 is chance)")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
