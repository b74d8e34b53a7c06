"""a^n b^2n."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.algorithmic._task import Blocks


class Doubled(Blocks):
    name, title, symbols, place = "anb2n", "a^n b^2n", "ab", 3

    def counts(self, n: int, generator: np.random.Generator) -> Sequence[int]:
        return n, 2 * n


TASK = Doubled
