"""List RNN: a recurrent net with doubly linked lists in place of stacks."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.cells import Signals, State
from dgl_treestack.cells.memory.stack import weighted_sum
from dgl_treestack.plain_data import whole
from dgl_treestack.sequence._contract import EMPTY, ActingCell

ACTIONS = ("insert", "left", "right", "noop")


class ListRNN(ActingCell):
    """Joulin & Mikolov 2015, eq. 8-10, for M lists with the head in the middle, at C // 2:

        h_t = sigma(U x_t + sum_l P_l L^l_{t-1}[head : head + k])
        a^l = softmax(beta A_l h_t)                            insert, left, right and, if there is one, no-op
        L^l = a_insert insert(L^l, sigma(D_l h_t)) + a_left left(L^l) + a_right right(L^l) + a_noop L^l

    insert(L, v) writes v at the head: the cell at the head, and all cells before it, move one to the left, and the leftmost is
    lost. left(L) moves the head to the left: as the head stays in the middle, all cells move one to the right, and an empty
    cell is added on the left. right(L) is its mirror image.

    Shapes: h (H,), list (M, C, 1), U (H, E), P (H, M k), A (M a, H), D (M, H). No biases. The paper does not say what is read
    (here the k cells from the head on, as a stack's k topmost), what is beyond the ends (`empty`), and where the head is.
    `beta` and `hard` as in Stack RNN.
    """

    U: nn.Parameter
    P: nn.Parameter
    memory, sides, positive = "list", 2, True

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        lists: int = 5,
        depth: int = 2,
        noop: bool = False,
        empty: float = EMPTY,
        capacity: int = 200,
        **common: Any,
    ):
        whole(capacity, "capacity", 2 * whole(depth, "depth", 1), 10**9)  # as many are read to the right of the middle
        memories: dict[str, Any] = {"memories": lists, "width": 1, "depth": depth, "empty": empty, "capacity": capacity}
        super().__init__(inputs, hidden, actions=ACTIONS if noop else ACTIONS[:3], **memories, **common)
        self.add("U", hidden, inputs)
        self.add("P", hidden, lists * depth)
        self.add("A", lists * len(self.actions), hidden)
        self.add("D", lists, hidden)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        lists, head = state["list"], self.capacity // 2
        h, actions, value = self.act(drive + lists[..., head : head + self.depth, 0].flatten(-2) @ self.P.mT)
        cells = lists.flatten(0, -3)  # (lists, C, 1): those of all restarts and sequences
        border = torch.full_like(cells[:, :1], self.empty["list"])
        inserted = torch.cat([cells[:, 1 : head + 1], value.reshape(-1, 1, 1), cells[:, head + 1 :]], dim=1)
        to_the_left = torch.cat([border, cells[:, :-1]], dim=1)
        to_the_right = torch.cat([cells[:, 1:], border], dim=1)
        outcomes = (inserted, to_the_left, to_the_right, cells)[: len(actions)]
        moved = weighted_sum(outcomes, [share.flatten()[:, None, None] for share in actions])
        return {"h": h, "list": moved.unflatten(0, lists.shape[:-2])}, dict(zip(self.actions, actions, strict=True))
