"""Counts that models without recursion see, for single expressions: the references of tests."""

from collections import Counter

from dgl_treestack.expression import Expression
from dgl_treestack.generate.assembly import tokens


def token_counts(expression: Expression) -> Counter[str]:
    return Counter(tokens(expression))


def shape(expression: Expression) -> Counter[str]:
    """Size and depth, of the whole and of each side."""
    middle, heights = expression.ends[1], expression.heights
    sides = {"left_size": middle - 1, "left_depth": heights[1], "right_depth": heights[middle]}
    return Counter(size=expression.size, depth=expression.depth, **sides)
