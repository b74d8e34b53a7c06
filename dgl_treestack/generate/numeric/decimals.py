"""Numbers with two decimals as trees: as one leaf, and spelt out, 1.29 = 1 + 2*10**(-1) + 9*10**(-1*2).

Numbers are whole hundredths. A minus is a product with -1. `order` holds random bits that say in which order the operands
of sums and products stand; the operands of a power never move. A digit 0 after the point is left out, and so is the
coefficient 1.
"""

from collections.abc import Sequence

from dgl_treestack.expression import Expression

Order = Sequence[bool]
BITS = 8  # that a spelt number needs

_MINUS_ONE = Expression.leaf("NegativeOne")


def number(hundredths: int, swapped: bool = False) -> Expression:
    """The number as a leaf of class Number with two printed decimals, times -1 where it is negative.

    >>> str(number(129)), str(number(-50)), number(200).texts
    ('1.29', '-0.50', ('2.00',))
    """
    leaf = Expression.leaf("Number", f"{abs(hundredths) // 100}.{abs(hundredths) % 100:02d}")
    return leaf if hundredths >= 0 else commuted("Mul", _MINUS_ONE, leaf, swapped)


def digits(hundredths: int) -> tuple[int, int, int]:
    """The digit before the point and the two after it.

    >>> digits(-129)
    (1, 2, 9)
    """
    size = abs(hundredths)
    return size // 100, size // 10 % 10, size % 10


def spelt(hundredths: int, order: Order) -> Expression:
    """The number as a sum of digits times powers of ten, the whole times -1 where it is negative."""
    whole, tenths, rest = digits(hundredths)
    terms = [_digit(whole)]
    if tenths:
        terms.append(_term(tenths, _MINUS_ONE, order[0]))
    if rest:
        terms.append(_term(rest, commuted("Mul", _MINUS_ONE, _digit(2), order[1]), order[2]))
    tree = _sum(terms, order[3:6])
    return tree if hundredths >= 0 else commuted("Mul", _MINUS_ONE, tree, order[6])


def commuted(name: str, first: Expression, second: Expression, swapped: bool) -> Expression:
    """An operator over two operands in one order or the other."""
    return Expression.node(name, second, first) if swapped else Expression.node(name, first, second)


def _sum(terms: Sequence[Expression], order: Order) -> Expression:
    if len(terms) == 1:
        return terms[0]
    if len(terms) == 2:
        return commuted("Add", terms[0], terms[1], order[0])
    first, second, third = terms
    if order[2]:
        return commuted("Add", first, commuted("Add", second, third, order[0]), order[1])
    return commuted("Add", commuted("Add", first, second, order[0]), third, order[1])


def _term(digit: int, exponent: Expression, swapped: bool) -> Expression:
    power = Expression.node("Pow", _digit(10), exponent)
    return power if digit == 1 else commuted("Mul", _digit(digit), power, swapped)


def _digit(value: int) -> Expression:
    return Expression.leaf("Integer", str(value))
