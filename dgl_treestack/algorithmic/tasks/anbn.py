"""a^n b^n."""

from dgl_treestack.algorithmic._task import Blocks


class TwoBlocks(Blocks):
    name, title, symbols, position = "anbn", "a^n b^n", "ab", 0
    start, multiples = 1, (1, 1)


TASK = TwoBlocks
