"""Tree-RNN: a feed-forward network per operator."""

from typing import Any

from torch import Tensor

from dgl_treestack.cells._contract import Cell, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._layers import ACTIVATIONS
from dgl_treestack.plain_data import one_of, whole


class TreeRNN(Cell):
    """Arabshahi 2019, eq. 1-2:

        i = [h_1; ...; h_A]
        h = f(W i + b)                        layers = 1
        h = f(W_2 f(W i + b) + b_2)           layers = 2, the baseline that Arabshahi 2020 describes without an equation

    Shapes: h (H,), W (H, A H), W_2 (H, H). f is `activation`: the paper says "such as Sigmoid", which is the default.
    Child-sum: i = h_1 + ... + h_A, W (H, H).
    Dropout acts on h, as in the authors' code; the papers do not say where.
    """

    def __init__(self, *sizes: Any, layers: int = 1, activation: str = "sigmoid", **common: Any):
        super().__init__(*sizes, **common)
        # The published tables of this package take tanh: the sigmoid stays at 50 to 53 % in 15 epochs of the bundled data.
        self.activation = ACTIVATIONS[one_of(ACTIVATIONS, activation, "activation")]
        self.noise = {"h": (self.hidden,)}
        self.add_product("state", self.joined(self.hidden), (self.hidden, 0))
        self.upper_layers = [f"layer{i}" for i in range(2, whole(layers, "layers", 1) + 1)]
        for layer in self.upper_layers:
            self.add_product(layer, (self.hidden, 0), (self.hidden, 0))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        h = self.activation(ops.linear("state", self.join(children["h"], inputs)))
        for layer in self.upper_layers:
            h = self.activation(ops.linear(layer, h))
        return {"h": dropped(h, noise, "h")}, {}


MODELS = {
    "tree_rnn": CellSpec(TreeRNN, "Arabshahi 2019", "1-2", "a layer per operator"),
    "tree_rnn_tanh": CellSpec(TreeRNN, "Arabshahi 2019", "1-2", "tanh in place of the sigmoid", {"activation": "tanh"}),
    "tree_rnn_two_layers": CellSpec(TreeRNN, "Arabshahi 2020", "section 4", "a second layer", {"layers": 2}),
    "tree_rnn_released": CellSpec(TreeRNN, "Arabshahi 2020, released code", "-", "the same equations"),
}
