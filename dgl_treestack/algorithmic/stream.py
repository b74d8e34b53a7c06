"""The data of restarts: streams of sequences, one per restart, and the curriculum of the sequences' sizes."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.algorithmic._task import Task

STRIDE = 200  # updates between two comparisons of a net's loss with the goal


@dataclass(frozen=True)
class Chunk:
    """T tokens of R streams: inputs and targets (T, R), and the weights of the targets in the loss (T, R), 1 or 0."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor


class Streams:
    """Infinite streams of a task, without a gap between sequences. `largest`, one per stream, may be changed at any time: the
    size of a new sequence is drawn uniformly from the task's smallest size to `largest`.

    A stream begins with the task's `start`, as if a sequence had just ended.
    """

    def __init__(self, task: Task, restarts: int, generator: np.random.Generator):
        self.task, self.generator, self.largest = task, generator, [task.smallest] * restarts
        self.tokens: list[list[int]] = [[task.start] for _ in range(restarts)]
        self.counted: list[list[bool]] = [[False] for _ in range(restarts)]

    def take(self, length: int) -> Chunk:
        """Return the next tokens of all streams."""
        for tokens, counted, largest in zip(self.tokens, self.counted, self.largest, strict=True):
            while len(tokens) <= length:
                n = int(self.generator.integers(self.task.smallest, largest + 1))
                sequence = self.task.draw(n, self.generator)
                tokens += sequence
                counted += self.task.scored(sequence) if self.task.only_scored else [True] * len(sequence)
        rows = torch.tensor([tokens[: length + 1] for tokens in self.tokens]).T
        weights = torch.tensor([counted[1 : length + 1] for counted in self.counted], dtype=torch.float32).T
        for tokens, counted in zip(self.tokens, self.counted, strict=True):
            del tokens[:length], counted[:length]
        return Chunk(rows[:-1].contiguous(), rows[1:].contiguous(), weights.contiguous())


class Curriculum:
    """The largest size of every restart's sequences, in `sizes`, from `smallest` to `largest`.

    Without a goal all sizes grow linearly over `updates`. With a goal the size of each restart grows on its own, by one
    whenever its loss per weighted token was below the goal over the last 200 updates.
    """

    def __init__(self, smallest: int, largest: int, updates: float, restarts: int, goal: float = 0.0):
        self.smallest, self.largest, self.updates, self.goal = smallest, largest, updates, goal
        self.sizes = [smallest if goal or updates else largest] * restarts
        self.losses, self.counted, self.done = torch.zeros(restarts), torch.zeros(restarts), 0

    def note(self, losses: Tensor, counted: Tensor) -> None:
        """Record an update: the summed losses (R,) and the number of weighted tokens (R,)."""
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
