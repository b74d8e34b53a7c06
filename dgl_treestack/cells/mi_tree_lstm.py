"""MI-Tree-LSTM: a Tree-LSTM whose gates multiply what comes from the input and from the children."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import CellSpec, Noise, Ops, Signals, State
from dgl_treestack.cells._external_stack import MayHaveStack
from dgl_treestack.cells._lstm import add_memory, open_gates, remember
from dgl_treestack.cells._settings import choose

GATES = 4  # i, o, u, f


def _general(a: Tensor, b: Tensor, alpha: Tensor, beta1: Tensor, beta2: Tensor) -> Tensor:
    return alpha * a * b + beta1 * b + beta2 * a


# MI(a, b) with what is learned for it: alpha, beta_1 (of b) and beta_2 (of a), or nothing.
INTEGRATIONS: dict[str, Callable[..., Tensor]] = {"general": _general, "printed": torch.mul, "first_order": torch.add}


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
    Child-sum: x, and z for i, o, u, are sums; f_k sees z_k alone. Dropout acts on u and on v; the paper does not say where.
    """

    def __init__(self, *sizes: Any, integration: str = "general", **settings: Any):
        super().__init__(*sizes, **settings)
        self.integrate = choose(INTEGRATIONS, integration, "integration")
        add_memory(self)
        self.add_product("gates_x", self.joined(self.hidden), (GATES * self.hidden, 0), bias=False)
        self.add_map("gates_z", GATES - 1, external=False, bias=False)
        self.add_constants("bias", [0.0] * (GATES - 1), 1.0 if integration == "general" else 0.0)
        self.learned = {"alpha": 1.0, "beta1": 0.5, "beta2": 0.5} if integration == "general" else {}
        for name, value in self.learned.items():
            self.add_constants(name, [value] * GATES)

    def step(self, ops: Ops, x: Tensor, z: Tensor, children: State, noise: Noise) -> tuple[State, Signals]:
        own_z, f_z = self.map(ops, "gates_z", z)
        own_x, f_x = _parted(ops.linear("gates_x", x).unflatten(1, (GATES, self.hidden)))
        own_b, f_b = _parted(self.constants(ops, "bias", x))
        learned = [_parted(self.constants(ops, name, x)) for name in self.learned]
        own = self.integrate(own_x, own_z, *[part for part, _ in learned]) + own_b
        i, f, o, u = open_gates(own, self.integrate(f_x, f_z, *[part for _, part in learned]) + f_b, noise)
        return remember(i, f, o, u, children["c"]), {"input": i, "output": o, "forget": f}


def _parted(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Those of i, o, u, and those of the forget gates."""
    return vectors[:, : GATES - 1], vectors[:, GATES - 1 :]


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
