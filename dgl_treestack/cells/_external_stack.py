"""The external stack of Mali 2021, an option of every cell of that paper."""

import abc
from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, Cell, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells.memory import stack
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import number, one_of, switch, whole

COMBINATIONS = ("gates", "sum", "mean")
CONTROLLERS = ("h", "x")


class MayHaveStack(Cell):
    """A step h, ... = step(x, z) of Mali 2021, and with `stack_size` above 0 the stack of eq. 16-19 around it:

        x       = [h_1; ...; h_A]                the node's input is its children
        z_k     = h_k + P S_k[0]                 eq. 17: the top of every child's stack enters its state; without a stack h_k
        a       = softmax(A h + b_a)             eq. 16 on the new state, with the no-op of eq. 18
        v       = sigma(D h)                     the pushed value
        g_k     = sigma(G_k x + b_gk)            children's stacks combined as in Arabshahi 2019: S_c = sum_k g_k * S_k
        S[0]    = a_push v        + a_pop S_c[1]   + a_noop S_c[0]
        S[r]    = a_push S_c[r-1] + a_pop S_c[r+1] + a_noop S_c[r]         with the no-op that eq. 19 leaves out

    Shapes: stack (stack_size, H), P, D (H, H), A (3, H), G_k (H, A H). The paper prints A as 2 x 2n, D as 1 x m, and eq. 18 for
    every child's stack, although a node has one; it does not say how children's stacks are combined.
    Child-sum: x = h_1 + ... + h_A, and g_k = sigma(G h_k + b_g) depends on its child alone.
    Settings for other readings of the paper: `noop=False` leaves two actions, as eq. 16 has;
    `controller="x"` computes the actions from x; `combine` is `gates`, `sum` or `mean`; `empty` is the value of the entries of
    a leaf's stack and of the row that a pop adds at the bottom.
    """

    def __init__(
        self,
        *sizes: Any,
        stack_size: int = 0,
        noop: bool = True,
        controller: str = "h",
        combine: str = "gates",
        empty: float = 0.0,
        **common: Any,
    ):
        super().__init__(*sizes, **common)
        self.stack_size, self.actions = whole(stack_size, "stack_size", 0), stack.ACTIONS[: 3 if switch(noop, "noop") else 2]
        self.controller = one_of(CONTROLLERS, controller, "controller")
        self.combine = one_of(COMBINATIONS, combine, "combine")
        self.bottom = number(empty, "empty")
        if not stack_size:
            if (noop, controller, combine, empty) != (True, "h", "gates", 0.0):
                raise ConfigurationError("noop, controller, combine and empty belong to a stack. Set stack_size to at least 1.")
            return
        self.fields["stack"], self.empty["stack"] = (stack_size, self.hidden), self.bottom
        self.signals.update(dict.fromkeys(self.actions, (1,)))
        self.noise["v"] = (self.hidden,)
        h, x = (self.hidden, 0), self.joined(self.hidden)
        self.add_product("read", h, h, bias=False)
        self.add_product("actions", x if controller == "x" else h, (len(self.actions), 0))
        self.add_product("value", h, h, bias=False)
        if combine == "gates":
            self.signals["combine"] = (PER_CHILD, self.hidden)
            self.add_map("combine", 0)

    @abc.abstractmethod
    def step(self, ops: Ops, x: Tensor, z: Tensor, children: State, noise: Noise) -> tuple[State, Signals]:
        """Compute state and signals, without the stack, from x (nodes, in), z (nodes, A, H) and the children's other fields."""

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        x, z = self.join(children["h"], inputs), children["h"]
        if not self.stack_size:
            return self.step(ops, x, z, children, noise)
        z = z + ops.linear("read", children["stack"][:, :, 0])
        state, signals = self.step(ops, x, z, children, noise)
        gates: Signals = {}
        if self.combine == "gates":
            gates["combine"] = torch.sigmoid(self.map(ops, "combine", children["h"], inputs)[1])
            combined = (gates["combine"].unsqueeze(2) * children["stack"]).sum(1)
        else:
            combined = children["stack"].sum(1) if self.combine == "sum" else children["stack"].mean(1)
        h = state["h"]
        actions = torch.softmax(ops.linear("actions", x if self.controller == "x" else h), 1).unsqueeze(2).unbind(1)
        value = dropped(torch.sigmoid(ops.linear("value", h)), noise, "v")
        memory = stack.update(combined, value, *actions, empty=self.bottom)
        return {**state, "stack": memory}, {**signals, **dict(zip(self.actions, actions, strict=True)), **gates}
