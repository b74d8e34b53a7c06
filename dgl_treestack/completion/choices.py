"""What is tried for a blank where nobody gives candidates: leaves, every operator over them, and what identities often ask
for: the square, the reciprocal and the negative of a function of a variable."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH

NO_VALUES = ("Symbol", "NaN", "Infinity")
COMMUTATIVE = ("Add", "Mul")


def choices(variables: Sequence[str], vocabulary: Vocabulary) -> list[Expression]:
    """The variables, the vocabulary's constants, every operator once over these (arguments of sums and products in one order
    only), and the square, reciprocal and negative of every function of a variable."""
    symbols = [Expression.leaf("Symbol", name) for name in variables]
    leaves = [*symbols, *(Expression.leaf(*leaf) for leaf in vocabulary.leaves if leaf[0] not in NO_VALUES)]
    return [*leaves, *_above(leaves), *_of_functions(symbols)]


def _above(leaves: Sequence[Expression]) -> Iterator[Expression]:
    for operator in MATH.inner:
        arguments: Iterable[tuple[Expression, ...]] = itertools.product(leaves, repeat=operator.arity or 1)
        if operator.name in COMMUTATIVE:
            arguments = itertools.combinations_with_replacement(leaves, 2)
        yield from (Expression.node(operator.name, *chosen) for chosen in arguments)


def _of_functions(symbols: Sequence[Expression]) -> Iterator[Expression]:
    minus, two = Expression.leaf("NegativeOne"), Expression.leaf("Integer", "2")
    for operator, symbol in itertools.product(MATH.inner, symbols):
        if operator.arity == 1:
            value = Expression.node(operator.name, symbol)
            yield from (
                Expression.node("Pow", value, two),
                Expression.node("Pow", value, minus),
                Expression.node("Mul", minus, value),
            )
