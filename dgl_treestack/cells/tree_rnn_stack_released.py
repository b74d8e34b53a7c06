"""Tree-RNN with a stack per node, as the authors' code computes it."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import Cell, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._layers import ACTIVATIONS, LeafEncoder
from dgl_treestack.cells.memory import stack
from dgl_treestack.plain_data import one_of, switch, whole


class TreeRNNStackReleased(Cell):
    """The released form of Arabshahi 2019, eq. 3-14. It differs from the paper in the state, which reads the children's stacks:

        i       = [h_1; ...; h_A]                S_c[r] = [S_1[r]; ...; S_A[r]]
        h       = f(W i + b + V [S_1[0 : k]; ...; S_A[0 : k]])
        a       = softmax(A i + b_a)             push, pop; with noop=True no-op
        u       = sigma(U_u i + b_u)
        S_x[r]  = sigma(U_x S_c[r] + b_x)        S_c is zero below the bottom, so a pop adds sigma(b_pop)
        S[0]    = a_push u           + a_pop S_pop[1]    (+ a_noop S_noop[0])
        S[r]    = a_push S_push[r-1] + a_pop S_pop[r+1]  (+ a_noop S_noop[r])

    It also differs in A, U_u and U_x, which all operators of one arity share, or all operators in the child-sum form (W, b and
    V are per operator), and in number leaves, whose network has ReLU in place of the sigmoid.

    Shapes: h (H,), stack S (stack_size, H), W (H, A H), V (H, A k H), U_x (H, A H).
    Child-sum, which the authors do not have: sums in place of all concatenations over children.
    Dropout acts on h, as in the authors' Tree-RNN.
    """

    def __init__(
        self, *sizes: Any, stack_size: int = 5, noop: bool = False, top_k: int = 1, activation: str = "sigmoid", **common: Any
    ):
        super().__init__(*sizes, **common)
        self.leaves = LeafEncoder(len(self.leaves.table), self.hidden, torch.relu)
        self.actions = stack.ACTIONS if switch(noop, "noop") else stack.ACTIONS[:2]
        self.fields["stack"] = (whole(stack_size, "stack_size", 1), self.hidden)
        self.activation = ACTIVATIONS[one_of(ACTIVATIONS, activation, "activation")]
        self.top_k = whole(top_k, "top_k", 1, stack_size)
        self.signals, self.noise = dict.fromkeys(self.actions, (1,)), {"h": (self.hidden,)}
        count, rows = len(self.actions), self.joined(self.hidden, external=False)
        self.add_product("state", self.joined(self.hidden), (self.hidden, 0))
        self.add_product("read", self.joined(self.top_k * self.hidden, external=False), (self.hidden, 0), bias=False)
        self.add_product("actions", self.joined(self.hidden), (count, 0), share="all")
        self.add_product("value", self.joined(self.hidden), (self.hidden, 0), share="all")
        self.add_product("rows", rows, (count * self.hidden, 0), share="all")

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        x = self.join(children["h"], inputs)
        tops = self.join(children["stack"][:, :, : self.top_k].flatten(2))
        h = self.activation(ops.linear("state", x) + ops.linear("read", tops))
        actions = torch.softmax(ops.linear("actions", x), 1).unsqueeze(2).unbind(1)
        below = torch.cat([children["stack"], torch.zeros_like(children["stack"][:, :, :1])], dim=2)
        rows = torch.sigmoid(ops.linear("rows", self.join(below))).chunk(len(self.actions), 2)
        u = torch.sigmoid(ops.linear("value", x))
        memory = stack.update(rows, u, *actions)[:, :-1]
        return {"h": dropped(h, noise, "h"), "stack": memory}, dict(zip(self.actions, actions, strict=True))


MODELS = {
    "tree_rnn_stack_released": CellSpec(
        TreeRNNStackReleased, "Arabshahi 2019, released code", "-", "the children's stacks in the state"
    ),
}
