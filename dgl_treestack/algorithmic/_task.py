"""The contract of an algorithmic task."""

import abc
from collections.abc import Sequence
from typing import ClassVar

import numpy as np


class Task(abc.ABC):
    """A language whose sequences have a size n; their tokens are indices of `symbols`.

    name: as used in files and on the command line. title: as shown in tables. position: in the order of the tables.
    start: the token read before the first sequence, as if another sequence had just ended.
    determined_after: all tokens after the first one of this value are determined by those before them.
    smallest: the minimum of n. varied: whether sequences of one size differ.
    next_is_scored: whether the first token of the following sequence is determined as well, and has to be predicted.
    only_scored: whether nets are trained on the scored tokens only.
    remembers: whether arbitrary words must be stored; nets are then larger and trained longer.
    noop: whether nets have the no-op. patient: whether sizes grow only as fast as a net learns them.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    symbols: ClassVar[str]
    position: ClassVar[int]
    start: ClassVar[int]
    determined_after: ClassVar[int] = 1
    smallest: ClassVar[int] = 2
    next_is_scored: ClassVar[bool] = True
    only_scored: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    noop: ClassVar[bool] = False
    patient: ClassVar[bool] = False
    varied: ClassVar[bool] = True

    @abc.abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        """Draw the tokens of a sequence of size n."""

    def scored(self, tokens: Sequence[int]) -> list[bool]:
        """Return for every token of a sequence whether it is determined by those before it."""
        first = list(tokens).index(self.determined_after)
        return [position > first for position in range(len(tokens))]


class Blocks(Task):
    """Symbols in their order, symbol i repeated multiples[i] * n times.

    The sequence is determined from the second occurrence of symbol 1 on.
    """

    multiples: ClassVar[tuple[int, ...]]
    varied = False

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        return [symbol for symbol, multiple in enumerate(self.multiples) for _ in range(multiple * n)]
