"""a^n b^n c^n d^n."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.algorithmic._task import Blocks


class FourBlocks(Blocks):
    name, title, symbols, place = "anbncndn", "a^n b^n c^n d^n", "abcd", 2

    def counts(self, n: int, generator: np.random.Generator) -> Sequence[int]:
        return n, n, n, n


TASK = FourBlocks
