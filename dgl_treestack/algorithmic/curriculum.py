"""How large the sequences are that restarts are trained on."""

import torch
from torch import Tensor

STRIDE = 200  # updates after which a net's loss is looked at


class Curriculum:
    """sizes: the largest of every restart's sequences, from `smallest` to `largest`.

    They grow linearly over `updates`; with a goal every restart's grow on their own, by one whenever its loss per token that
    counts was below the goal for 200 updates.
    """

    def __init__(self, smallest: int, largest: int, updates: float, restarts: int, goal: float = 0.0):
        self.smallest, self.largest, self.updates, self.goal = smallest, largest, updates, goal
        self.sizes = [smallest if goal or updates else largest] * restarts
        self.losses, self.counted, self.done = torch.zeros(restarts), torch.zeros(restarts), 0

    def note(self, losses: Tensor, counted: Tensor) -> None:
        """After an update: the losses (R,), summed, and how many tokens counted (R,)."""
        self.done += 1
        if not self.goal:
            share = min(1.0, self.done / self.updates) if self.updates else 1.0
            self.sizes = [round(self.smallest + share * (self.largest - self.smallest))] * len(self.sizes)
            return
        self.losses, self.counted = self.losses + losses, self.counted + counted
        if self.done % STRIDE == 0:
            reached = (self.losses < self.goal * self.counted).tolist()
            self.sizes = [min(size + ready, self.largest) for size, ready in zip(self.sizes, reached, strict=True)]
            self.losses, self.counted = torch.zeros_like(losses), torch.zeros_like(counted)
