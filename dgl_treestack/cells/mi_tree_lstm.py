"""MI-Tree-LSTM: a Tree-LSTM whose gates multiply the linear maps of the input and of the children."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._external_stack import MayHaveStack
from dgl_treestack.plain_data import one_of

GATES = 4  # i, o, u, f
INTEGRATIONS = ("general", "printed", "first_order")


class MITreeLSTM(MayHaveStack):
    """Mali 2021, eq. 10-15, and eq. 16-19 where it has a stack; MI(a, b) of Wu et al. 2016 in every gate:

        x       = [h_1; ...; h_A]                     the node's input is its children
        z_k     = h_k + P S_k[0]                      without a stack h_k

        MI(a, b) = alpha * a * b + beta_1 * b + beta_2 * a

        i, o    = sigma(MI(W x, sum_k U_k z_k) + b)
        f_k     = sigma(MI(W_f x, sum_l U_kl z_l) + b_k)       one forget gate per child; eq. 11 prints U and b without k
        u       = tanh(MI(W_u x, sum_k U_uk z_k) + b_u)
        c       = i * u + sum_k f_k * c_k             h = o * tanh(c)

    Shapes: h, c (H,), W (4 H, A H) in the order i, o, u, f, U (3 H + A H, A H) in the order i, o, u, f_1 .. f_A,
    alpha, beta_1, beta_2 (4 H,), b (3 H + A H,); the stack's as in `MayHaveStack`.
    `integration="printed"` is eq. 10-13 to the letter, MI(a, b) = a * b, in which signals fade with depth; the default,
    `general`, starts at alpha = 1, beta = 0.5 and b_k = 1. `integration="first_order"`: MI(a, b) = a + b, a standard LSTM.
    Child-sum: x, and z for i, o, u, are sums; f_k depends on z_k alone.
    Dropout acts on u and on v; the paper does not say where.
    """

    def __init__(self, *sizes: Any, integration: str = "general", **settings: Any):
        super().__init__(*sizes, **settings)
        # `printed` fades: the deviation of h twenty binary levels up is 0.010, that of the LSTM cells 0.09 to 0.5.
        self.integration = one_of(INTEGRATIONS, integration, "integration")
        self.fields["c"] = self.noise["u"] = (self.hidden,)
        self.signals.update({"input": (self.hidden,), "output": (self.hidden,), "forget": (PER_CHILD, self.hidden)})
        self.add_product("gates_x", self.joined(self.hidden), (GATES * self.hidden, 0), bias=False)
        self.add_map("gates_z", GATES - 1, external=False, bias=False)
        self.add_constants("bias", [0.0] * (GATES - 1), 1.0 if integration == "general" else 0.0)
        self.learned = {"alpha": 1.0, "beta1": 0.5, "beta2": 0.5} if integration == "general" else {}
        for name, value in self.learned.items():
            self.add_constants(name, [value] * GATES)

    def step(self, ops: Ops, x: Tensor, z: Tensor, children: State, noise: Noise) -> tuple[State, Signals]:
        parts_of_z = self.map(ops, "gates_z", z)
        vectors = [ops.linear("gates_x", x).unflatten(1, (GATES, self.hidden))]
        vectors += [self.constants(ops, name, x) for name in ("bias", *self.learned)]
        parts = [(vector[:, : GATES - 1], vector[:, GATES - 1 :]) for vector in vectors]  # of i, o, u, and of the forget gates
        preactivations = []
        for b, a, bias, *learned in zip(parts_of_z, *parts, strict=True):
            if self.integration == "general":
                alpha, beta1, beta2 = learned
                integrated = alpha * a * b + beta1 * b + beta2 * a
            else:
                integrated = a * b if self.integration == "printed" else a + b
            preactivations.append(integrated + bias)
        gates, f = preactivations
        i, o, f = torch.sigmoid(gates[:, 0]), torch.sigmoid(gates[:, 1]), torch.sigmoid(f)
        u = dropped(torch.tanh(gates[:, 2]), noise, "u")
        c = i * u + (f * children["c"]).sum(1)
        return {"h": o * torch.tanh(c), "c": c}, {"input": i, "output": o, "forget": f}


MODELS = {
    "mi_tree_lstm": CellSpec(MITreeLSTM, "Mali 2021", "10-15", "multiplicative integration (Wu 2016, general)"),
    "mi_tree_lstm_printed": CellSpec(
        MITreeLSTM, "Mali 2021", "10-15", "as printed, the product alone", {"integration": "printed"}
    ),
    "mi_tree_lstm_first_order": CellSpec(
        MITreeLSTM, "Mali 2021", "10-15", "sums in place of products", {"integration": "first_order"}
    ),
    "mi_tree_lstm_stack": CellSpec(MITreeLSTM, "Mali 2021", "10-19", "a stack beside the cell", {"stack_size": 5}),
    "mi_tree_lstm_stack_first_order": CellSpec(
        MITreeLSTM, "Mali 2021", "10-19", "the standard LSTM with the stack", {"stack_size": 5, "integration": "first_order"}
    ),
}
