"""Algorithmic tasks: languages whose sequences have a size n. A new one is a class and an entry of `tasks`."""

import abc
from collections.abc import Sequence
from functools import cache

import numpy as np


class SequenceTask(abc.ABC):
    """A language whose sequences have a size n; their tokens are indices of `symbols`.

    name: as used in files and on the command line. title: as shown in tables.
    start: the token read before the first sequence, as if another sequence had just ended.
    determined_after: all tokens after the first one of this value are determined by those before them.
    smallest: the minimum of n. varied: whether sequences of one size differ.
    next_is_scored: whether the first token of the following sequence is determined as well, and has to be predicted.
    only_scored: whether nets are trained on the scored tokens only.
    remembers: whether arbitrary words must be stored; nets are then larger and trained longer.
    noop: whether nets have the no-op.
    """

    name: str
    title: str
    symbols: str
    start: int
    determined_after = 1
    smallest = 2
    next_is_scored = True
    only_scored = False
    remembers = False
    noop = False
    varied = True

    @abc.abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        """Draw the tokens of a sequence of size n."""

    def scored(self, tokens: Sequence[int]) -> list[bool]:
        """Return for every token of a sequence whether it is determined by those before it."""
        first = list(tokens).index(self.determined_after)
        return [position > first for position in range(len(tokens))]


class Blocks(SequenceTask):
    """Symbols in their order, symbol i repeated multiples[i] * n times.

    The sequence is determined from the second occurrence of symbol 1 on.
    """

    varied = False

    def __init__(self, name: str, title: str, multiples: Sequence[int]):
        self.name, self.title, self.multiples = name, title, multiples
        self.symbols, self.start = "abcd"[: len(multiples)], len(multiples) - 1

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        return [symbol for symbol, multiple in enumerate(self.multiples) for _ in range(multiple * n)]


class Sum(SequenceTask):
    """a^n b^m c^(n+m), where n + m is the size and m is drawn from 1 to the size less one."""

    name, title, symbols = "anbmcnm", "a^n b^m c^(n+m)", "abc"
    start, determined_after = 2, 2

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        m = int(generator.integers(1, n))
        return [symbol for symbol, count in enumerate((n - m, m, n)) for _ in range(count)]


class Memorization(SequenceTask):
    """n letters, a separator, the letters in reverse.

    Nets have no no-op here, as in the authors' command; their paper suggests that they have one.
    """

    name, title, symbols = "memorization", "memorization", "|ab"
    start, determined_after = 2, 0
    smallest, next_is_scored = 1, False  # the first letter of a sequence is random
    remembers = True

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        letters = generator.choice((1, 2), n).tolist()
        return [*letters, 0, *reversed(letters)]


PLUS, EQUALS, DOT, ZERO, ONE = range(5)


class Addition(SequenceTask):
    """Binary addition: two numbers of n digits together, their sum with the least digit first, a dot.

    A number begins with the digit 1; a number of no digits is written 0. Nets are trained on the tokens after the equality
    sign.
    """

    # A stream that begins with a digit in place of the dot cannot be told from the first number by a net without recurrence
    # besides its stacks.
    name, title, symbols = "addition", "binary addition", "+=.01"
    start, determined_after = DOT, EQUALS
    smallest, next_is_scored, only_scored = 0, False, True
    remembers, noop = True, True

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        first, numbers = int(generator.integers(0, n + 1)), []
        for digits in (first, n - first):
            lower = "".join(map(str, generator.integers(0, 2, max(0, digits - 1))))
            numbers.append(int("0" + "1" * (digits > 0) + lower, 2))
        left, right = ([ONE if bit == "1" else ZERO for bit in f"{number:b}"] for number in numbers)
        total = [ONE if bit == "1" else ZERO for bit in reversed(f"{sum(numbers):b}")]
        return [*left, PLUS, *right, EQUALS, *total, DOT]


@cache
def tasks() -> dict[str, SequenceTask]:
    """Return all tasks by name, in the order of the papers' tables."""
    counting = [
        Blocks("anbn", "a^n b^n", (1, 1)),
        Blocks("anbncn", "a^n b^n c^n", (1, 1, 1)),
        Blocks("anbncndn", "a^n b^n c^n d^n", (1, 1, 1, 1)),
        Blocks("anb2n", "a^n b^2n", (1, 2)),
        Sum(),
    ]
    return {task.name: task for task in (*counting, Memorization(), Addition())}
