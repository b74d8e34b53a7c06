"""Tree-RNN with a stack of scalars per node: the first stack equations."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import Cell, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._layers import ACTIVATIONS
from dgl_treestack.cells.memory import stack
from dgl_treestack.plain_data import one_of, switch, whole


class ScalarStack:
    """A stack of scalars, a field (stack_size, 1) of a cell, with its products: eq. 3-7, and alike 14-23, of the note.

    cell: gets the field and the products, whose names begin with that of the field. controller: width, as `add_product` takes
    it, of the vector from which actions and the pushed value are computed. top_k, printed: as in the cells that use it.
    """

    def __init__(self, cell: Cell, field: str, controller: tuple[int, int], stack_size: int, top_k: int, printed: bool):
        self.field, self.join = field, cell.join
        self.top_k, self.printed = whole(top_k, "top_k", 1, whole(stack_size, "stack_size", 1)), switch(printed, "printed")
        cell.fields[field] = (stack_size, 1)
        cell.add_product(f"{field}_actions", controller, (2, 0), bias=False)
        cell.add_product(f"{field}_value", controller, (1, 0), bias=False)
        cell.add_product(f"{field}_rows", cell.joined(1, external=False), (2, 0), bias=False)
        cell.add_product(f"{field}_read", cell.joined(self.top_k, external=False), (cell.hidden, 0), bias=False)

    def read(self, ops: Ops, children: State) -> Tensor:
        """Return P [s_1[0 : k]; ...; s_A[0 : k]], (nodes, H)."""
        return ops.linear(f"{self.field}_read", self.join(children[self.field][:, :, : self.top_k, 0]))

    def update(self, ops: Ops, children: State, controller: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the new stack (nodes, stack_size, 1) and the actions push and pop (nodes, 1). controller: (nodes, width)."""
        actions = torch.softmax(ops.linear(f"{self.field}_actions", controller), 1).unsqueeze(2).unbind(1)
        pushed, popped = ops.linear(f"{self.field}_rows", self.join(children[self.field])).split(1, 2)
        smooth = torch.sigmoid(popped)
        if self.printed:  # sigma is around row 1, which is popped to the top, in eq. 4, but not around lower rows in eq. 5
            smooth = torch.cat([smooth[:, :2], popped[:, 2:]], dim=1)
        value = torch.sigmoid(ops.linear(f"{self.field}_value", controller))
        return stack.update([torch.sigmoid(pushed), smooth], value, *actions), actions


class TreeRNNScalarStack(Cell):
    """Note of March 2019, eq. 1-7:

        I      = [O_1; ...; O_A]                      s_C[i] = [s_1[i]; ...; s_A[i]]
        O      = f(W I + P [s_1[0 : k]; ...; s_A[0 : k]] + b)   eq. 7: the children's stacks; b as in eq. 2
        a      = softmax(A I)                          push, pop
        s[0]   = a_push sigma(D I)              + a_pop sigma(D_pop s_C[1])
        s[i]   = a_push sigma(D_push s_C[i-1])  + a_pop sigma(D_pop s_C[i+1])

    Shapes: O = h (H,), stack s (stack_size, 1), A (2, A H), D (1, A H), D_push, D_pop (1, A), P (H, A k). No biases but b.
    Eq. 5 prints no sigma at D_pop; eq. 4 does, and this cell has it (`printed=True` leaves it out below the top).
    Row stack_size, below the bottom, is zero. Child-sum: sums in place of both concatenations.
    Dropout acts on h; the note does not say where.
    """

    def __init__(
        self,
        *sizes: Any,
        stack_size: int = 5,
        top_k: int = 1,
        printed: bool = False,
        activation: str = "sigmoid",
        **common: Any,
    ):
        super().__init__(*sizes, **common)
        self.activation = ACTIVATIONS[one_of(ACTIVATIONS, activation, "activation")]
        self.noise = {"h": (self.hidden,)}
        self.stack = ScalarStack(self, "stack", self.joined(self.hidden), stack_size, top_k, printed)
        self.signals = dict.fromkeys(stack.ACTIONS[:2], (1,))
        self.add_product("state", self.joined(self.hidden), (self.hidden, 0))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        x = self.join(children["h"], inputs)
        h = dropped(self.activation(ops.linear("state", x) + self.stack.read(ops, children)), noise, "h")
        memory, actions = self.stack.update(ops, children, x)
        return {"h": h, "stack": memory}, dict(zip(stack.ACTIONS, actions, strict=False))


MODELS = {
    "tree_rnn_scalar_stack": CellSpec(TreeRNNScalarStack, "note of March 2019", "1-7", "a stack of scalars beside the state"),
}
