"""Tree-LSTM: gates and a memory cell per operator."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, Cell, Ops, State, dropped
from dgl_treestack.cells._model import Model
from dgl_treestack.operators import Operator


class TreeLSTM(Cell):
    """Arabshahi 2019, eq. 15-21 (the n-ary form of Tai et al. 2015), for any arity A:

        inp = sigma(U_inp i + b_inp)          i = [h_1; ...; h_A]
        f_k = sigma(U_fk i + b_fk)            one forget gate per child
        o   = sigma(U_o i + b_o)
        u   = tanh(U_u i + b_u)
        c   = inp * u + sum_k f_k * c_k
        h   = o * tanh(c)

    Shapes: h, c (H,); the matrices (H, A H) are stacked in the order inp, o, u, f_1 .. f_A. A leaf has c = 0.
    Dropout acts on u, as in the authors' code; the papers do not say where.
    """

    def __init__(self, operators: Sequence[Operator], tokens: int, hidden: int, **common: Any):
        super().__init__(operators, tokens, hidden, **common)
        self.fields["c"] = (hidden,)
        self.signals = {"input": (hidden,), "output": (hidden,), "forget": (PER_CHILD, hidden)}
        self.noise = {"u": (hidden,)}
        self.add_product("gates", (self.input_size, hidden), (3 * hidden, hidden))

    def node(
        self, ops: Ops, children: State, inputs: Tensor | None, noise: Mapping[str, Tensor]
    ) -> tuple[State, dict[str, Tensor]]:
        gates = ops.linear("gates", self.concatenate(children["h"], inputs)).unflatten(1, (-1, self.hidden))
        inp, o = torch.sigmoid(gates[:, 0]), torch.sigmoid(gates[:, 1])
        u = dropped(torch.tanh(gates[:, 2]), noise, "u")
        f = torch.sigmoid(gates[:, 3:])
        c = inp * u + (f * children["c"]).sum(1)
        return {"h": o * torch.tanh(c), "c": c}, {"input": inp, "output": o, "forget": f}


MODELS = {
    "tree_lstm": Model(TreeLSTM, "Arabshahi 2019", "15-21", "a memory cell and gates"),
    "tree_lstm_released": Model(TreeLSTM, "Arabshahi 2020, released code", "-", "the same equations"),
}
