"""A stack of scalars, as the note of March 2019 adds it to a cell."""

import torch
from torch import Tensor

from dgl_treestack.cells._contract import Cell, Ops, State
from dgl_treestack.cells._settings import switch, whole
from dgl_treestack.cells.memory import stack


class ScalarStack:
    """A field of a cell, (stack_size, 1), and the products that move it; eq. 3-7 of the note, and 14-23 alike.

    controller: width, as `add_product` takes it, of what decides on push and pop and is pushed.
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
        """P [s_1[0 : k]; ...; s_A[0 : k]], (nodes, H)."""
        return ops.linear(f"{self.field}_read", self.join(children[self.field][:, :, : self.top_k, 0]))

    def update(self, ops: Ops, children: State, controller: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The new stack (nodes, stack_size, 1), and push and pop (nodes, 1)."""
        actions = torch.softmax(ops.linear(f"{self.field}_actions", controller), 1).unsqueeze(2).unbind(1)
        pushed, popped = ops.linear(f"{self.field}_rows", self.join(children[self.field])).split(1, 2)
        smooth = torch.sigmoid(popped)
        if self.printed:  # row 1, which pops to the top, goes through sigma in eq. 4, the rows below do not in eq. 5
            smooth = torch.cat([smooth[:, :2], popped[:, 2:]], dim=1)
        value = torch.sigmoid(ops.linear(f"{self.field}_value", controller))
        return stack.update_each([torch.sigmoid(pushed), smooth], value, *actions), actions
