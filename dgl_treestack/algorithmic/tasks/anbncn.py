"""a^n b^n c^n."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.algorithmic._task import Blocks


class ThreeBlocks(Blocks):
    name, title, symbols, place = "anbncn", "a^n b^n c^n", "abc", 1

    def counts(self, n: int, generator: np.random.Generator) -> Sequence[int]:
        return n, n, n


TASK = ThreeBlocks
