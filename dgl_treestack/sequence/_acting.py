"""The base of cells with external memories: actions, sizes and initial values."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dgl_treestack.sequence._contract import SequenceCell
from dgl_treestack.settings import number, whole

EMPTY = -1.0  # content of an empty cell of a memory in the authors' program
LARGEST = 50.0  # the authors' program clamps the arguments of sigmoids to this magnitude


class ActingCell(SequenceCell):
    """Base of cells with M memories of C cells of width W, each updated by a soft action, a mixture of `actions`:

        a^m = softmax(beta A_m h_t)        the share of every action
        v^m = sigma(D_m h_t)               the value to write

    memories: M. width: W. depth: number of cells that h reads. empty: content of an empty cell. capacity: C, see `resize`.
    Attributes: `beta`, initially 1, is raised during rounding (Joulin & Mikolov 2015, section 3.2); `hard` replaces the mixture
    by the most probable action. A subclass names its `memory`, and adds A (M a, H) for a actions and D (M W, H).
    """

    A: nn.Parameter
    D: nn.Parameter
    memory: ClassVar[str]
    sides: ClassVar[int] = 1  # cells to provide per symbol: 2 for a memory that grows to either side of its head

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        memories: int,
        width: int,
        depth: int,
        actions: tuple[str, ...],
        empty: float,
        capacity: int,
        **common: Any,
    ):
        super().__init__(inputs, hidden, **common)
        for name, value in ((f"{self.memory}s", memories), ("width", width), ("depth", depth)):
            whole(value, name, 1)
        self.memories, self.width, self.depth, self.actions = memories, width, depth, actions
        self.beta, self.hard = 1.0, False
        self.empty[self.memory] = number(empty, "empty")
        self.signals = {name: (memories,) for name in actions}
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """Set the number of cells per memory, from the next `start` on, since tests may be longer than training.

        No weight depends on this number.
        """
        self.capacity = capacity
        self.fields[self.memory] = (self.memories, capacity or self.depth, self.width)

    def act(self, total: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Return h = sigma(total), (R, B, H), the shares of the actions, (R, B, M) each, and the values (R, B, M W)."""
        h = torch.sigmoid(total.clamp(-LARGEST, LARGEST))
        shares = torch.softmax(self.beta * (h @ self.A.mT).unflatten(-1, (self.memories, -1)), dim=-1)
        if self.hard:
            shares = nn.functional.one_hot(shares.argmax(-1), len(self.actions)).to(shares)
        return h, shares.unbind(-1), torch.sigmoid((h @ self.D.mT).clamp(-LARGEST, LARGEST))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values as the authors' program does."""
        for parameter in self.parameters():
            draw_summed(parameter, generator)


def draw_summed(weight: Tensor, generator: torch.Generator) -> None:
    """Fill a weight with sums of three draws from U(-0.1, 0.1), as Joulin & Mikolov's program does."""
    draws = torch.empty(3, *weight.shape).uniform_(-0.1, 0.1, generator=generator)
    with torch.no_grad():
        weight.copy_(draws.sum(0))
