"""Memorization: n letters, a separator, the letters in reverse."""

import numpy as np

from dgl_treestack.algorithmic._task import Task

SEPARATOR, LETTERS = 0, (1, 2)


class Memorization(Task):
    """Nets have no no-op here, as in the authors' command; their paper suggests that they have one."""

    name, title, symbols, position = "memorization", "memorization", "|ab", 5
    start, determined_after = LETTERS[-1], SEPARATOR
    smallest, next_is_scored = 1, False  # the first letter of a sequence is random
    remembers = True

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        letters = generator.choice(LETTERS, n).tolist()
        return [*letters, SEPARATOR, *reversed(letters)]


TASK = Memorization
