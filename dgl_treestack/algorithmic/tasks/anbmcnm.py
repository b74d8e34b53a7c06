"""a^n b^m c^(n+m), where n + m is the size and m is drawn from 1 to it less one."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.algorithmic._task import Blocks


class Sum(Blocks):
    name, title, symbols, place = "anbmcnm", "a^n b^m c^(n+m)", "abc", 4
    known_from, varied = 2, True

    def counts(self, n: int, generator: np.random.Generator) -> Sequence[int]:
        m = int(generator.integers(1, n))
        return n - m, m, n


TASK = Sum
