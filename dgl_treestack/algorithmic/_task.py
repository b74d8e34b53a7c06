"""The contract of an algorithmic task."""

import abc
from collections.abc import Sequence
from typing import ClassVar

import numpy as np


class Task(abc.ABC):
    """A language. A sequence has a size n; its tokens are positions in `symbols`.

    name, title: for programs and for people. place: in tables. smallest: the least n. next_is_scored: whether the first token
    of the sequence that follows is determined as well, and has to be right. only_scored: whether nets are trained on the scored
    tokens alone. remembers: whether words of any kind have to be kept, for which nets are larger and trained longer. noop:
    whether nets may leave their memories as they are. patient: whether sizes grow only as fast as a net learns them. varied:
    whether sequences of one size differ.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    symbols: ClassVar[str]
    place: ClassVar[int]
    smallest: ClassVar[int] = 2
    next_is_scored: ClassVar[bool] = True
    only_scored: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    noop: ClassVar[bool] = False
    patient: ClassVar[bool] = False
    varied: ClassVar[bool] = True

    @property
    def start(self) -> int:
        """What is read before the first sequence, as if another had just ended: the last symbol."""
        return len(self.symbols) - 1

    @abc.abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        """The tokens of a sequence of size n."""

    @abc.abstractmethod
    def scored(self, tokens: Sequence[int]) -> list[bool]:
        """Per token, whether it is determined by those before it."""


class Blocks(Task):
    """Symbols one after another, each repeated: from the second occurrence of `known_from` on, the rest is determined."""

    known_from: ClassVar[int] = 1
    varied = False

    @abc.abstractmethod
    def counts(self, n: int, generator: np.random.Generator) -> Sequence[int]:
        """How often every symbol comes, in their order."""

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        return [symbol for symbol, count in enumerate(self.counts(n, generator)) for _ in range(count)]

    def scored(self, tokens: Sequence[int]) -> list[bool]:
        first = list(tokens).index(self.known_from)
        return [place > first for place in range(len(tokens))]
