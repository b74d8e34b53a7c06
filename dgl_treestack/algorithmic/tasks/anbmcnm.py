"""a^n b^m c^(n+m), where n + m is the size and m is drawn from 1 to the size less one."""

import numpy as np

from dgl_treestack.algorithmic._task import Task


class Sum(Task):
    name, title, symbols, position = "anbmcnm", "a^n b^m c^(n+m)", "abc", 4
    start, determined_after = 2, 2

    def draw(self, n: int, generator: np.random.Generator) -> list[int]:
        m = int(generator.integers(1, n))
        return [symbol for symbol, count in enumerate((n - m, m, n)) for _ in range(count)]


TASK = Sum
