"""a^n b^2n."""

from dgl_treestack.algorithmic._task import Blocks


class Doubled(Blocks):
    name, title, symbols, position = "anb2n", "a^n b^2n", "ab", 3
    start, multiples = 1, (1, 2)


TASK = Doubled
