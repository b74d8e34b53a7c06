"""a^n b^n c^n d^n."""

from dgl_treestack.algorithmic._task import Blocks


class FourBlocks(Blocks):
    name, title, symbols, position = "anbncndn", "a^n b^n c^n d^n", "abcd", 2
    start, multiples = 3, (1, 1, 1, 1)


TASK = FourBlocks
