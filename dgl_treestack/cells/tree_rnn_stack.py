"""Tree-RNN with a stack per node."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import Cell, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._layers import ACTIVATIONS
from dgl_treestack.cells.memory import stack
from dgl_treestack.plain_data import one_of, switch, whole


class TreeRNNStack(Cell):
    """Arabshahi 2019, eq. 3-14:

        i       = [h_1; ...; h_A]                S_c[r] = [S_1[r]; ...; S_A[r]]
        a       = softmax(A i + b_a)             two or three numbers per node: push, pop, no-op
        u       = sigma(U_u i + b_u)
        S_x[r]  = sigma(U_x S_c[r] + b_x)        x = push, pop, no-op; every row by the same matrix
        S[0]    = a_push u           + a_pop S_pop[1]   + a_noop S_noop[0]
        S[r]    = a_push S_push[r-1] + a_pop S_pop[r+1] + a_noop S_noop[r]
        p       = sigma(U_p i + b_p)             k numbers
        h       = f(W i + p S[0 : k] + b)        the node's own, new stack

    Shapes: h (H,), stack S (stack_size, H), U_x (H, A H), U_p (k, A H); the paper prints U_p as k x n.
    W and U_u are stacked in one matrix.
    Row stack_size of S_pop, below the bottom, is zero, as the paper says. Eq. 10 is used for k = 1 as well.
    Child-sum: sums in place of both concatenations.
    Dropout acts on u; the paper does not say where.
    """

    def __init__(
        self, *sizes: Any, stack_size: int = 5, noop: bool = False, top_k: int = 1, activation: str = "sigmoid", **common: Any
    ):
        super().__init__(*sizes, **common)
        self.actions = stack.ACTIONS if switch(noop, "noop") else stack.ACTIONS[:2]
        self.activation = ACTIVATIONS[one_of(ACTIVATIONS, activation, "activation")]
        self.fields["stack"] = (whole(stack_size, "stack_size", 1), self.hidden)
        self.signals = dict.fromkeys(self.actions, (1,))
        self.noise = {"u": (self.hidden,)}
        width = self.joined(self.hidden)
        self.add_product("actions", width, (len(self.actions), 0))
        self.add_product("state", width, (2 * self.hidden, 0))
        self.add_product("read", width, (whole(top_k, "top_k", 1, stack_size), 0))
        self.add_product("rows", self.joined(self.hidden, external=False), (len(self.actions) * self.hidden, 0))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        x = self.join(children["h"], inputs)
        actions = torch.softmax(ops.linear("actions", x), 1).unsqueeze(2).unbind(1)
        state, u = ops.linear("state", x).chunk(2, 1)
        u = dropped(torch.sigmoid(u), noise, "u")
        rows = torch.sigmoid(ops.linear("rows", self.join(children["stack"]))).chunk(len(self.actions), 2)
        memory = stack.update(rows, u, *actions)
        top = stack.read(memory, torch.sigmoid(ops.linear("read", x)))
        return {"h": self.activation(state + top), "stack": memory}, dict(zip(self.actions, actions, strict=True))


MODELS = {
    "tree_rnn_stack": CellSpec(TreeRNNStack, "Arabshahi 2019", "3-11", "a stack beside the state"),
    "tree_rnn_stack_noop": CellSpec(TreeRNNStack, "Arabshahi 2019", "3-14", "the no-op action", {"noop": True}),
    "tree_rnn_stack_top2": CellSpec(TreeRNNStack, "Arabshahi 2019", "3-11", "output from the two topmost rows", {"top_k": 2}),
}
