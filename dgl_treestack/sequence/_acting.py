"""What cells have in common whose memories are moved by actions: their shares, rounding, sizes and initial values."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dgl_treestack.cells.initializers import draw_summed
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence._contract import SequenceCell

EMPTY = -1.0  # what an empty cell of a memory holds, in the authors' program


class ActingCell(SequenceCell):
    """Base of cells with M memories of C cells of width W, on each of which a little of every action a is done:

        a^m = softmax(beta A_m h_t)

    h sees `depth` cells. An empty cell holds `empty`. Attributes: `beta`, 1, is raised by rounding (Joulin & Mikolov 2015,
    section 3.2); with `hard` the likeliest action is taken alone. A subclass names its `memory` and its actions,
    and adds A (M a, H).
    """

    A: nn.Parameter
    memory: ClassVar[str]
    sides: ClassVar[int] = 1  # cells that a symbol takes at most: 2 where it may come to lie on either side of a head

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
            if value < 1:
                raise ConfigurationError(f"{name!r} is {value}; it must be at least 1.")
        self.memories, self.width, self.depth, self.actions = memories, width, depth, actions
        self.beta, self.hard = 1.0, False
        self.empty[self.memory] = empty
        self.signals = {name: (memories,) for name in actions}
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """Other numbers of cells from the next start on: tests may be longer than training. No weight depends on them."""
        self.capacity = capacity
        self.fields[self.memory] = (self.memories, capacity or self.depth, self.width)

    def act(self, h: Tensor) -> tuple[Tensor, ...]:
        """The actions' shares, (R, B, M) each."""
        shares = torch.softmax(self.beta * (h @ self.A.mT).unflatten(-1, (self.memories, -1)), dim=-1)
        if self.hard:
            shares = nn.functional.one_hot(shares.argmax(-1), len(self.actions)).to(shares)
        return shares.unbind(-1)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """As the authors' program."""
        for parameter in self.parameters():
            draw_summed(parameter, generator)


def sigmoid(x: Tensor) -> Tensor:
    """The logistic function of at most 50 in size."""
    return torch.sigmoid(x.clamp(-50, 50))
