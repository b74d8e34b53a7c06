"""What SymPy says of an equation by evaluating as it builds, without simplifying: the papers' test of their mutants.

SymPy knows no bounds: 10**(10**10) would be written out. An equation in which a number grows too large counts as not
evaluated, which depends on the equation alone, unlike a deadline.
"""

from typing import Any

import sympy

from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH

LARGEST = 10**12  # numbers
LARGEST_POWER = 40  # exponents of numbers

_CLASSES = {operator.name: getattr(sympy, operator.name) for operator in MATH.inner}


class TooLarge(Exception):
    """A number that is not worth evaluating."""


def evaluates_to_true(equation: Expression) -> bool:
    """Whether both sides become the same object, or their difference becomes 0. What is undefined is not true.

    >>> evaluates_to_true(Expression.parse("x + x = 2*x")), evaluates_to_true(Expression.parse("sin(x)**2 = 1 - cos(x)**2"))
    (True, False)
    """
    try:
        left, right = _sides(equation)
        if left.has(*_UNDEFINED) or right.has(*_UNDEFINED):
            return False
        return bool(left == right or left - right == 0)
    except Exception:  # SymPy fails in many ways on what no one would write; the papers' rule is that this is not true
        return False


_UNDEFINED = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)


def _sides(equation: Expression) -> tuple[Any, Any]:
    done: list[Any] = []
    for i in range(equation.size - 1, 0, -1):
        name = equation.names[i]
        if equation.texts[i] is not None:
            done.append(equation.subtree(i).to_sympy())
            continue
        arguments = [done.pop() for _ in range(equation.arities[i])]
        _check_power(name, arguments)
        done.append(_checked(_CLASSES[name](*arguments)))
    return done[1], done[0]


def _check_power(name: str, arguments: list[Any]) -> None:
    if name == "Pow" and arguments[1].is_Number and not abs(arguments[1]) <= LARGEST_POWER:
        raise TooLarge


def _checked(value: Any) -> Any:
    numbers = [value] if value.is_Number else value.args[:1]
    for number in numbers:
        if number.is_Number and not abs(number) <= LARGEST:
            raise TooLarge
    return value
