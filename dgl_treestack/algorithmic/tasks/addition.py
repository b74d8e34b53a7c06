"""Binary addition: two numbers of n digits together, their sum with the least digit first, a dot."""

import numpy as np

from dgl_treestack.algorithmic._task import Task

PLUS, EQUALS, DOT, ZERO, ONE = range(5)


class Addition(Task):
    """A number begins with the digit 1; a number of no digits is written 0.

    Nets are trained on the tokens after the equality sign.
    """

    name, title, symbols, position = "addition", "binary addition", "+=.01", 6
    start, determined_after = DOT, EQUALS
    smallest, next_is_scored, only_scored = 0, False, True
    remembers, noop, patient = True, True, True

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        first, numbers = int(generator.integers(0, n + 1)), []
        for digits in (first, n - first):
            lower = "".join(map(str, generator.integers(0, 2, max(0, digits - 1))))
            numbers.append(int("0" + "1" * (digits > 0) + lower, 2))
        left, right = ([ONE if bit == "1" else ZERO for bit in f"{number:b}"] for number in numbers)
        total = [ONE if bit == "1" else ZERO for bit in reversed(f"{sum(numbers):b}")]
        return [*left, PLUS, *right, EQUALS, *total, DOT]


TASK = Addition
