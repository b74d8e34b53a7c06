"""Tree-LSTM: gates and a memory cell per operator."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, Cell, CellSpec, Noise, Ops, Signals, State, dropped


class TreeLSTM(Cell):
    """Arabshahi 2019, eq. 15-21 (the n-ary form of Tai et al. 2015), for any arity A:

        inp = sigma(U_inp i + b_inp)          i = [h_1; ...; h_A]
        f_k = sigma(U_fk i + b_fk)            one forget gate per child
        o   = sigma(U_o i + b_o)
        u   = tanh(U_u i + b_u)
        c   = inp * u + sum_k f_k * c_k
        h   = o * tanh(c)

    Shapes: h, c (H,); the matrices (H, A H) are stacked in the order inp, o, u, f_1 .. f_A. A leaf has c = 0.
    Child-sum (Tai et al., eq. 2-8): i = h_1 + ... + h_A, and f_k = sigma(U_f h_k + b_f).
    Dropout acts on u, as in the authors' code; the papers do not say where.
    """

    def __init__(self, *sizes: Any, **common: Any):
        super().__init__(*sizes, **common)
        self.fields["c"] = self.noise["u"] = (self.hidden,)
        self.signals = {"input": (self.hidden,), "output": (self.hidden,), "forget": (PER_CHILD, self.hidden)}
        self.add_map("gates", 3)

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        gates, f = self.map(ops, "gates", children["h"], inputs)
        inp, o, f = torch.sigmoid(gates[:, 0]), torch.sigmoid(gates[:, 1]), torch.sigmoid(f)
        u = dropped(torch.tanh(gates[:, 2]), noise, "u")
        c = inp * u + (f * children["c"]).sum(1)
        return {"h": o * torch.tanh(c), "c": c}, {"input": inp, "output": o, "forget": f}


MODELS = {
    "tree_lstm": CellSpec(TreeLSTM, "Arabshahi 2019", "15-21", "a memory cell and gates"),
    "tree_lstm_child_sum": CellSpec(TreeLSTM, "Tai 2015", "2-8", "children summed", {"form": "child_sum"}),
    "tree_lstm_released": CellSpec(TreeLSTM, "Arabshahi 2020, released code", "-", "the same equations"),
}
