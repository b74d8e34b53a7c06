"""Whether SymPy's automatic evaluation, without simplification, finds an equation true: the papers' test of their mutants.

SymPy does not bound the size of numbers: 10**(10**10) would be computed. An equation with too large a number counts as not
evaluated. Unlike a time limit, this depends on the equation alone.
"""

from typing import Any

import sympy

from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH

LARGEST = 10**12  # numbers
LARGEST_POWER = 40  # exponents that are numbers

_CLASSES = {operator.name: getattr(sympy, operator.name) for operator in MATH.inner}
_UNDEFINED = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)


class TooLarge(Exception):
    """A number exceeds the bounds of this module."""


def evaluates_to_true(equation: Expression) -> bool:
    """Return whether both sides evaluate to the same object, or their difference to 0. Undefined sides are not true.

    >>> evaluates_to_true(Expression.parse("x + x = 2*x")), evaluates_to_true(Expression.parse("sin(x)**2 = 1 - cos(x)**2"))
    (True, False)
    """
    try:
        left, right = _sides(equation)
        if left.has(*_UNDEFINED) or right.has(*_UNDEFINED):
            return False
        return bool(left == right or left - right == 0)
    except Exception:  # SymPy raises many classes of errors on unusual expressions; by the papers' rule they are not true
        return False


def _sides(equation: Expression) -> tuple[Any, Any]:
    """Build both sides in SymPy, from the leaves up. Raises TooLarge."""
    stack: list[Any] = []
    for i in range(equation.size - 1, 0, -1):
        name = equation.names[i]
        if equation.texts[i] is not None:
            stack.append(equation.subtree(i).to_sympy())
            continue
        arguments = [stack.pop() for _ in range(equation.arities[i])]
        if name == "Pow" and arguments[1].is_Number and not abs(arguments[1]) <= LARGEST_POWER:
            raise TooLarge
        value = _CLASSES[name](*arguments)
        for number in [value] if value.is_Number else value.args[:1]:
            if number.is_Number and not abs(number) <= LARGEST:
                raise TooLarge
        stack.append(value)
    return stack[1], stack[0]
