"""Tree-RNN: a feed-forward layer per operator."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from dgl_treestack.cells._activation import ACTIVATIONS
from dgl_treestack.cells._contract import Cell, Ops, State, dropped
from dgl_treestack.cells._model import Model
from dgl_treestack.cells._settings import choose
from dgl_treestack.operators import Operator


class TreeRNN(Cell):
    """Arabshahi 2019, eq. 1-2:

        i = [h_1; ...; h_A]
        h = f(W i + b)

    Shapes: h (H,), W (H, A H). f is `activation`: the paper says "such as Sigmoid", which is the default.
    Dropout acts on h, as in the authors' code; the papers do not say where.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        tokens: int,
        hidden: int,
        *,
        activation: str = "sigmoid",
        **common: Any,
    ):
        super().__init__(operators, tokens, hidden, **common)
        self.activation = choose(ACTIVATIONS, activation, "activation")
        self.noise = {"h": (hidden,)}
        self.add_product("state", (self.input_size, hidden), (hidden, 0))

    def node(
        self, ops: Ops, children: State, inputs: Tensor | None, noise: Mapping[str, Tensor]
    ) -> tuple[State, dict[str, Tensor]]:
        h = self.activation(ops.linear("state", self.concatenate(children["h"], inputs)))
        return {"h": dropped(h, noise, "h")}, {}


MODELS = {
    "tree_rnn": Model(TreeRNN, "Arabshahi 2019", "1-2", "a layer per operator"),
    "tree_rnn_tanh": Model(TreeRNN, "Arabshahi 2019", "1-2", "tanh in place of the sigmoid", {"activation": "tanh"}),
    "tree_rnn_released": Model(TreeRNN, "Arabshahi 2020, released code", "-", "the authors' one-layer form"),
}
