"""Memorization: n letters, a separator, the letters in reverse."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.algorithmic._task import Task

SEPARATOR, LETTERS = 0, (1, 2)


class Memorization(Task):
    """As in the authors' command nets have no no-op here; their paper reads as if they had one."""

    name, title, symbols, place = "memorization", "memorization", "|ab", 5
    smallest, next_is_scored = 1, False  # whatever letter comes first, it says nothing
    remembers = True

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        letters = generator.choice(LETTERS, n).tolist()
        return [*letters, SEPARATOR, *reversed(letters)]

    def scored(self, tokens: Sequence[int]) -> list[bool]:
        return [place > list(tokens).index(SEPARATOR) for place in range(len(tokens))]


TASK = Memorization
