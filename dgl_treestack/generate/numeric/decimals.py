"""Numbers with two decimals as trees: as one leaf, and spelt out, 1.29 = 1 + 2*10**(-1) + 9*10**(-1*2).

Numbers are integers, in hundredths. A minus sign is a product with -1. `order` holds random bits that define the order of the
operands of sums and products; the operands of a power keep their order. A digit 0 after the point is omitted, and so is the
coefficient 1.
"""

from collections.abc import Sequence

from dgl_treestack.expression import Expression

Order = Sequence[bool]
BITS = 8  # of the order of a spelt number

_MINUS_ONE = Expression.leaf("NegativeOne")
_INTEGERS = tuple(Expression.leaf("Integer", str(value)) for value in range(11))


def number(hundredths: int, swapped: bool = False) -> Expression:
    """Return the number as a leaf of class Number with two printed decimals, times -1 if it is negative.

    >>> str(number(129)), str(number(-50)), number(200).texts
    ('1.29', '-0.50', ('2.00',))
    """
    leaf = Expression.leaf("Number", f"{abs(hundredths) // 100}.{abs(hundredths) % 100:02d}")
    return leaf if hundredths >= 0 else commuted("Mul", _MINUS_ONE, leaf, swapped)


def digits(hundredths: int) -> tuple[int, int, int]:
    """Return the digit before the point and the two after it.

    >>> digits(-129)
    (1, 2, 9)
    """
    size = abs(hundredths)
    return size // 100, size // 10 % 10, size % 10


def spelt(hundredths: int, order: Order) -> Expression:
    """Return the number as a sum of digits times powers of ten, the sum times -1 if it is negative."""
    integer_part, *decimals = digits(hundredths)
    terms = [_INTEGERS[integer_part]]
    exponents = _MINUS_ONE, commuted("Mul", _MINUS_ONE, _INTEGERS[2], order[1])
    for digit, exponent, swapped in zip(decimals, exponents, (order[0], order[2]), strict=True):
        if digit:
            power = Expression.node("Pow", _INTEGERS[10], exponent)
            terms.append(power if digit == 1 else commuted("Mul", _INTEGERS[digit], power, swapped))
    if len(terms) == 3 and order[5]:
        tree = commuted("Add", terms[0], commuted("Add", terms[1], terms[2], order[3]), order[4])
    else:
        tree = terms[0]
        for term, swapped in zip(terms[1:], order[3:5], strict=False):
            tree = commuted("Add", tree, term, swapped)
    return tree if hundredths >= 0 else commuted("Mul", _MINUS_ONE, tree, order[6])


def commuted(name: str, first: Expression, second: Expression, swapped: bool) -> Expression:
    """Return an operator over two operands, in reverse order if swapped."""
    return Expression.node(name, second, first) if swapped else Expression.node(name, first, second)
