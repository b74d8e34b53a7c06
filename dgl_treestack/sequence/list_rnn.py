"""List RNN: doubly linked lists with a head in place of stacks."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dgl_treestack.cells.memory.stack import weighted_sum
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence._acting import EMPTY, ActingCell, sigmoid
from dgl_treestack.sequence._contract import Signals, State

ACTIONS = ("insert", "left", "right", "noop")


def insert(cells: Float[Tensor, "N C W"], value: Float[Tensor, "N W"]) -> Float[Tensor, "N C W"]:
    """A value under the head; what was there, and all before it, moves one to the left. The leftmost cell is lost."""
    head = cells.shape[1] // 2
    return torch.cat([cells[:, 1 : head + 1], value.unsqueeze(1), cells[:, head + 1 :]], dim=1)


def left(cells: Float[Tensor, "N C W"], empty: float = 0.0) -> Float[Tensor, "N C W"]:
    """The head moves to the left: all cells move one to the right below it. An empty cell comes in on the left."""
    return torch.cat([torch.full_like(cells[:, :1], empty), cells[:, :-1]], dim=1)


def right(cells: Float[Tensor, "N C W"], empty: float = 0.0) -> Float[Tensor, "N C W"]:
    """The head moves to the right."""
    return torch.cat([cells[:, 1:], torch.full_like(cells[:, :1], empty)], dim=1)


class ListRNN(ActingCell):
    """Joulin & Mikolov 2015, eq. 8-10, for M lists with the head in the middle, at C // 2:

        h_t = sigma(U x_t + sum_l P_l L^l_{t-1}[head : head + k])
        a^l = softmax(beta A_l h_t)                            insert, left, right and, if there is one, no-op
        L^l = a_insert insert(L^l, sigma(D_l h_t)) + a_left left(L^l) + a_right right(L^l) + a_noop L^l

    Shapes: h (H,), list (M, C, 1), U (H, E), P (H, M k), A (M a, H), D (M, H). No biases. The paper leaves open what is read
    (here the k cells from the head on, as a stack's k topmost), what lies beyond the ends (`empty`), and where the head
    is. `beta` and `hard` as in Stack RNN.
    """

    U: nn.Parameter
    D: nn.Parameter
    P: nn.Parameter
    memory, sides, positive = "list", 2, True

    @property
    def head(self) -> int:
        """The middle."""
        return self.capacity // 2

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
        if capacity < 2 * depth:
            raise ConfigurationError(f"'capacity' is {capacity}; {depth} cells are read to the right of the middle.")
        memories: dict[str, Any] = {"memories": lists, "width": 1, "depth": depth, "empty": empty, "capacity": capacity}
        super().__init__(inputs, hidden, actions=ACTIONS if noop else ACTIONS[:3], **memories, **common)
        self.add("U", hidden, inputs)
        self.add("P", hidden, lists * depth)
        self.add("A", lists * len(self.actions), hidden)
        self.add("D", lists, hidden)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        cells, empty = state["list"], self.empty["list"]
        h = sigmoid(drive + cells[..., self.head : self.head + self.depth, 0].flatten(-2) @ self.P.mT)
        actions = self.act(h)
        flat, value = cells.flatten(0, -3), sigmoid(h @ self.D.mT).flatten().unsqueeze(1)
        outcomes = (insert(flat, value), left(flat, empty), right(flat, empty), flat)[: len(actions)]
        moved = weighted_sum(outcomes, [gate.flatten()[:, None, None] for gate in actions])
        return {"h": h, "list": moved.unflatten(0, cells.shape[:-2])}, dict(zip(self.actions, actions, strict=True))
