"""M-Tree-LSTM with a stack: multiplicative children's states, an LSTM cell and a stack beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dgl_treestack import stack
from dgl_treestack.cells._contract import PER_CHILD, Cell, Ops, State, dropped
from dgl_treestack.cells._model import Model
from dgl_treestack.cells._settings import whole
from dgl_treestack.operators import Operator


class MTreeLSTMStack(Cell):
    """Mali 2021, eq. 2-9 with the stack of eq. 16-19, read as follows (the paper's indices do not fit; each line a choice):

        x       = [h_1; ...; h_A]                     the node's input is its children
        z_k     = h_k + P S_k[0]                      eq. 17: the top of every child's stack enters its state
        zhat_k  = tanh(W_m x + R_z z_k)               eq. 2, tanh where a bracket is left over
        m_k     = (W_m x) * (R_m zhat_k)              eq. 3, a product where a sum is printed
        i, o    = sigma(W x + sum_k U_k m_k + b)
        f_k     = sigma(W_f x + sum_l U_kl m_l + b_k) one forget gate per child
        u       = tanh(W_u x + sum_k U_uk m_k + b_u)
        c       = i * u + sum_k f_k * c_k             h = o * tanh(c)
        a       = softmax(A h + b_a)                  eq. 16 on the new state, with the no-op of eq. 18
        v       = sigma(D h)                          the pushed value
        g_k     = sigma(G_k x + b_gk)                 children's stacks combined: S_c = sum_k g_k * S_k
        S[0]    = a_push v + a_pop S_c[1] + a_noop S_c[0], and S[r] alike (eq. 18-19)

    Shapes: h, c (H,), stack (stack_size, H); W, U (H, A H) stacked in the order i, o, u, f_1 .. f_A.
    Dropout acts on u and on v; the paper does not say where.
    """

    def __init__(self, operators: Sequence[Operator], tokens: int, hidden: int, *, stack_size: int = 5, **common: Any):
        super().__init__(operators, tokens, hidden, **common)
        self.fields.update({"c": (hidden,), "stack": (whole(stack_size, "stack_size", 1), hidden)})
        gates = {"input": (hidden,), "output": (hidden,), "forget": (PER_CHILD, hidden), "combine": (PER_CHILD, hidden)}
        self.signals = {**dict.fromkeys(stack.ACTIONS, (1,)), **gates}
        self.noise = {"u": (hidden,), "v": (hidden,)}
        one = (hidden, 0)
        self.add_product("read", one, one, bias=False)
        self.add_product("mix_x", (self.input_size, hidden), one, bias=False)
        self.add_product("mix_z", one, one, bias=False)
        self.add_product("mix_zhat", one, one, bias=False)
        self.add_product("gates_x", (self.input_size, hidden), (3 * hidden, hidden))
        self.add_product("gates_m", (0, hidden), (3 * hidden, hidden), bias=False)
        self.add_product("combine", (self.input_size, hidden), (0, hidden))
        self.add_product("actions", one, (len(stack.ACTIONS), 0))
        self.add_product("value", one, one, bias=False)

    def node(
        self, ops: Ops, children: State, inputs: Tensor | None, noise: Mapping[str, Tensor]
    ) -> tuple[State, dict[str, Tensor]]:
        x = self.concatenate(children["h"], inputs)
        z = children["h"] + ops.linear("read", children["stack"][:, :, 0])
        mixed = ops.linear("mix_x", x).unsqueeze(1)
        m = mixed * ops.linear("mix_zhat", torch.tanh(mixed + ops.linear("mix_z", z)))
        gates = (ops.linear("gates_x", x) + ops.linear("gates_m", m.flatten(1))).unflatten(1, (-1, self.hidden))
        i, o = torch.sigmoid(gates[:, 0]), torch.sigmoid(gates[:, 1])
        f = torch.sigmoid(gates[:, 3:])
        c = i * dropped(torch.tanh(gates[:, 2]), noise, "u") + (f * children["c"]).sum(1)
        h = o * torch.tanh(c)
        actions = torch.softmax(ops.linear("actions", h), 1).unsqueeze(2).unbind(1)
        value = dropped(torch.sigmoid(ops.linear("value", h)), noise, "v")
        g = torch.sigmoid(ops.linear("combine", x)).unflatten(1, (-1, self.hidden))
        memory = stack.update((g.unsqueeze(2) * children["stack"]).sum(1), value, *actions)
        signals = {**dict(zip(stack.ACTIONS, actions, strict=True)), "input": i, "output": o, "forget": f, "combine": g}
        return {"h": h, "c": c, "stack": memory}, signals


MODELS = {
    "mtree_lstm_stack": Model(MTreeLSTMStack, "Mali 2021", "2-9, 16-19", "multiplicative states and a stack beside the cell"),
}
