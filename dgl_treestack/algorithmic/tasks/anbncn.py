"""a^n b^n c^n."""

from dgl_treestack.algorithmic._task import Blocks


class ThreeBlocks(Blocks):
    name, title, symbols, position = "anbncn", "a^n b^n c^n", "abc", 1
    start, multiples = 2, (1, 1, 1)


TASK = ThreeBlocks
