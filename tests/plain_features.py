"""Counts that models without recursion see, for single expressions: the references of tests."""

from collections import Counter

from dgl_treestack.expression import Expression
from dgl_treestack.generate.assembly import tokens


def token_counts(expression: Expression) -> Counter[str]:
    return Counter(tokens(expression))


def shape(expression: Expression) -> Counter[str]:
    """Size and depth, of the whole and of each side."""
    middle = expression.ends[1]
    return Counter(
        size=expression.size,
        depth=expression.depth,
        left_size=middle - 1,
        left_depth=expression.heights[1],
        right_depth=expression.heights[middle],
    )
