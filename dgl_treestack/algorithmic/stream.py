"""Streams of sequences, one per restart, without anything between one sequence and the next."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.algorithmic._task import Task


@dataclass(frozen=True)
class Chunk:
    """T tokens of R streams: what is read and what is to be predicted (T, R), and what counts (T, R), 1 or 0."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor


class Streams:
    """Endless streams of a task, size n of every sequence drawn evenly from the task's smallest to `largest`, one per stream.

    A stream begins with the task's `start`, as if a sequence had just ended.
    """

    def __init__(self, task: Task, restarts: int, generator: np.random.Generator):
        self.task, self.generator, self.largest = task, generator, [task.smallest] * restarts
        self.tokens: list[list[int]] = [[] for _ in range(restarts)]
        self.counted: list[list[bool]] = [[] for _ in range(restarts)]
        self.begin()

    def begin(self) -> None:
        """Start anew."""
        for tokens, counted in zip(self.tokens, self.counted, strict=True):
            tokens[:] = [self.task.start]
            counted[:] = [False]

    def take(self, length: int) -> Chunk:
        """The next tokens of every stream."""
        for tokens, counted, largest in zip(self.tokens, self.counted, self.largest, strict=True):
            while len(tokens) <= length:
                n = int(self.generator.integers(self.task.smallest, largest + 1))
                drawn = self.task.draw(n, self.generator)
                tokens += drawn
                counted += self.task.scored(drawn) if self.task.only_scored else [True] * len(drawn)
        rows = torch.tensor([tokens[: length + 1] for tokens in self.tokens]).T
        weights = torch.tensor([counted[1 : length + 1] for counted in self.counted], dtype=torch.float32).T
        for tokens, counted in zip(self.tokens, self.counted, strict=True):
            del tokens[:length], counted[:length]
        return Chunk(rows[:-1].contiguous(), rows[1:].contiguous(), weights.contiguous())
