"""MTree-LSTM: a Tree-LSTM on multiplicative children's states."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._external_stack import MayHaveStack
from dgl_treestack.plain_data import one_of

MIXINGS = ("multiplicative", "krause", "first_order")


class MTreeLSTM(MayHaveStack):
    """Mali 2021, eq. 2-9, and eq. 16-19 where it has a stack; read as follows (the paper's indices are inconsistent):

        x       = [h_1; ...; h_A]                     the node's input is its children
        zhat_k  = tanh(W_m x + R_z z_k)               eq. 2, tanh where a bracket is left over; z_k = h_k + P S_k[0]
        m_k     = (W_m x) * (R_m zhat_k)              eq. 3, a product where a sum is printed
        i, o    = sigma(W x + sum_k U_k m_k + b)
        f_k     = sigma(W_f x + sum_l U_kl m_l + b_k) one forget gate per child
        u       = tanh(W_u x + sum_k U_uk m_k + b_u)
        c       = i * u + sum_k f_k * c_k             h = o * tanh(c)

    Shapes: h, c (H,), W (4 H, A H) stacked in the order i, o, u, f, U (3 H + A H, A H) in the order i, o, u, f_1 .. f_A,
    W_m (H, A H), R_z, R_m (H, H); the stack's as in `MayHaveStack`.
    `mixing="krause"` (Krause 2016): m_k = (W_m x) * (R_m z_k). `mixing="first_order"`, eq. 2 and 3 as printed, with sums and
    without tanh: m_k = W_m x + R_m (W_m x + R_z z_k). Child-sum: x, and m for i, o, u, are sums; f_k depends on m_k alone.
    Dropout acts on u and on v; the paper does not say where.
    """

    def __init__(self, *sizes: Any, mixing: str = "multiplicative", **settings: Any):
        super().__init__(*sizes, **settings)
        self.mixing = one_of(MIXINGS, mixing, "mixing")
        self.fields["c"] = self.noise["u"] = (self.hidden,)
        self.signals.update({"input": (self.hidden,), "output": (self.hidden,), "forget": (PER_CHILD, self.hidden)})
        h, x = (self.hidden, 0), self.joined(self.hidden)
        self.add_product("mix_x", x, h, bias=False)
        if mixing != "krause":
            self.add_product("mix_z", h, h, bias=False)
        self.add_product("mix_zhat", h, h, bias=False)
        # One W_f for all children. A W_f for each, as this cell once had, is more weights than the equations have.
        self.add_product("gates_x", x, (4 * self.hidden, 0), bias=False)
        self.add_map("gates_m", 3, external=False)

    def step(self, ops: Ops, x: Tensor, z: Tensor, children: State, noise: Noise) -> tuple[State, Signals]:
        mixed = ops.linear("mix_x", x).unsqueeze(1)
        if self.mixing == "multiplicative":
            m = mixed * ops.linear("mix_zhat", torch.tanh(mixed + ops.linear("mix_z", z)))
        elif self.mixing == "krause":
            m = mixed * ops.linear("mix_zhat", z)
        else:
            m = mixed + ops.linear("mix_zhat", mixed + ops.linear("mix_z", z))
        gates_m, f_m = self.map(ops, "gates_m", m)
        gates_x = ops.linear("gates_x", x).unflatten(1, (4, self.hidden))
        gates, f = gates_x[:, :3] + gates_m, gates_x[:, 3:] + f_m
        i, o, f = torch.sigmoid(gates[:, 0]), torch.sigmoid(gates[:, 1]), torch.sigmoid(f)
        u = dropped(torch.tanh(gates[:, 2]), noise, "u")
        c = i * u + (f * children["c"]).sum(1)
        return {"h": o * torch.tanh(c), "c": c}, {"input": i, "output": o, "forget": f}


MODELS = {
    "mtree_lstm": CellSpec(MTreeLSTM, "Mali 2021", "2-9", "multiplicative children's states"),
    "mtree_lstm_krause": CellSpec(MTreeLSTM, "Mali 2021", "2-9", "the form of Krause 2016", {"mixing": "krause"}),
    "mtree_lstm_first_order": CellSpec(MTreeLSTM, "Mali 2021", "2-9", "sums in place of products", {"mixing": "first_order"}),
    "mtree_lstm_stack": CellSpec(MTreeLSTM, "Mali 2021", "2-9, 16-19", "a stack beside the cell", {"stack_size": 5}),
    "mtree_lstm_stack_first_order": CellSpec(
        MTreeLSTM, "Mali 2021", "2-9, 16-19", "sums in place of products", {"stack_size": 5, "mixing": "first_order"}
    ),
}
