"""Binary addition: two numbers of n digits together, their sum with the least digit first, a dot."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.algorithmic._task import Task

PLUS, EQUALS, DOT, ZERO, ONE = range(5)


class Addition(Task):
    """A number begins with a one; one without digits is written 0. Nets are trained on what follows the equality sign."""

    name, title, symbols, place = "addition", "binary addition", "+=.01", 6
    smallest, next_is_scored, only_scored = 0, False, True
    remembers, noop, patient = True, True, True
    start = DOT

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        first = int(generator.integers(0, n + 1))
        numbers = [_number(digits, generator) for digits in (first, n - first)]
        left, right = ([ONE if bit == "1" else ZERO for bit in f"{number:b}"] for number in numbers)
        total = [ONE if bit == "1" else ZERO for bit in reversed(f"{sum(numbers):b}")]
        return [*left, PLUS, *right, EQUALS, *total, DOT]

    def scored(self, tokens: Sequence[int]) -> list[bool]:
        return [place > list(tokens).index(EQUALS) for place in range(len(tokens))]


def _number(digits: int, generator: np.random.Generator) -> int:
    """A number of so many binary digits, 0 for none."""
    return int("0" + "1" * (digits > 0) + "".join(map(str, generator.integers(0, 2, max(0, digits - 1)))), 2)


TASK = Addition
