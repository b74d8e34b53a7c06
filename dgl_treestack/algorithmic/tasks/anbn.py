"""a^n b^n."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.algorithmic._task import Blocks


class TwoBlocks(Blocks):
    name, title, symbols, place = "anbn", "a^n b^n", "ab", 0

    def counts(self, n: int, generator: np.random.Generator) -> Sequence[int]:
        return n, n


TASK = TwoBlocks
