"""A stack of scalars, as the note of March 2019 adds it to a cell."""

import torch
from torch import Tensor

from dgl_treestack.cells._contract import Cell, Ops, State, switch, whole
from dgl_treestack.cells.memory import stack


class ScalarStack:
    """A stack of scalars, a field (stack_size, 1) of a cell, with its products: eq. 3-7 of the note, and likewise 14-23.

    cell: gets the field and the products, whose names begin with that of the field. controller: width, as `add_product` takes
    it, of the vector from which actions and the pushed value are computed. top_k, printed: as in the cells that have it.
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
