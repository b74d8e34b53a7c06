"""Values of subtrees in 80 digits (by FLINT), at one point on demand; None is undefined.

The digits are those of midpoints: results that are only rounding noise become zero. `balls` has intervals.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flint import acb, arb, ctx

from dgl_treestack.truth.functions import (
    BRANCHES,
    GROWING,
    LARGEST,
    LOG_LARGEST,
    QUOTIENTS,
    RECIPROCAL_ARGUMENT,
    RECIPROCAL_VALUE,
    SATURATED,
    SATURATING,
    fraction_of,
)

if TYPE_CHECKING:
    from dgl_treestack.truth.evaluation import Value

BUDGET = 200_000  # operations in 80 digits per judged equation, about a second
DIGITS = 80
BITS = 270


@dataclass(eq=False)
class ExactEvaluation:
    """Evaluation of single points in 80 digits, each distinct subtree once, within a budget of operations."""

    budget: int
    _orders: dict["Value", list["Value"]] = field(default_factory=dict, init=False, repr=False)

    def value(self, root: "Value", point: int) -> Any:
        """Return the value of a subtree at a point, None where it is undefined or beyond the budget."""
        root_point = 0 if root.constant else point
        if root_point in root.exact:
            return root.exact[root_point]
        if root not in self._orders:
            self._orders[root] = children_first(root)
        with ctx.workprec(BITS):
            for value in self._orders[root]:
                at = 0 if value.constant else point
                if at in value.exact:
                    continue
                if self.budget <= 0:
                    return None
                self.budget -= 1
                if value.text is None:
                    arguments = [child.exact[0 if child.constant else point] for child in value.children]
                    value.exact[at] = _apply_exact(value.name, arguments)
                else:
                    number = ball_of_leaf(value, point)
                    is_fraction = number is not None and value.name not in ("Symbol", "Pi", "Exp1")
                    value.exact[at] = _drop_noise(number) if is_fraction else number
        return root.exact[root_point]


def children_first(root: "Value") -> list["Value"]:
    """Return the distinct values of a root and below it, children before parents."""
    order: dict[Value, None] = {}
    pending = [(root, False)]
    while pending:
        value, children_done = pending.pop()
        if children_done:
            order[value] = None
        elif value not in order:
            pending.append((value, True))
            pending.extend((child, False) for child in value.children)
    return list(order)


_NOISE = 2.0**-200  # about 1e-60: a result this small relative to its operands is zero
_ZERO, _ONE = acb(0), acb(1)


def ball_of_leaf(leaf: "Value", point: int) -> Any:
    """Return the ball of a leaf at a point in the current precision, None for a leaf without value."""
    if leaf.name == "Symbol":
        number = leaf.exact.get(point)
        return acb(complex(leaf.number[point])) if number is None else number
    if leaf.name in ("Pi", "Exp1"):
        return acb.pi() if leaf.name == "Pi" else acb(arb.const_e())
    if leaf.name in ("NaN", "Infinity"):
        return None
    fraction = fraction_of(leaf.name, leaf.text or "")
    return acb(fraction.numerator) / fraction.denominator


def exceeds_limits(name: str, x: Any) -> bool:
    """Return whether an operator saturates, or grows out of range, at its argument."""
    if name in SATURATING:
        return bool(abs(getattr(complex(x), SATURATING[name])) > SATURATED)
    return name in GROWING and bool(abs(getattr(complex(x), GROWING[name])) > LOG_LARGEST)


def _apply_exact(name: str, arguments: list) -> Any:
    """Return the value of an operator, in 80 digits.

    None if an argument is undefined, at a pole, and where the operator saturates or grows out of range.
    """
    for argument in arguments:
        if argument is None:
            return None
    x = arguments[0]
    if exceeds_limits(name, x):
        return None
    if name == "Add":
        total, largest = x + arguments[1], max(magnitude(x), magnitude(arguments[1]))
        number = _ZERO if magnitude(total) < _NOISE * largest else total
    elif name == "Mul":
        number = x * arguments[1]
    elif name == "Pow":
        number = power(x, arguments[1])
    elif name == "log":
        x, base = at_branch_point(x, "real"), at_branch_point(arguments[1], "real")
        number = None if x == 0 or base in (0, 1) else x.log() / base.log()
    elif name in RECIPROCAL_ARGUMENT:
        inverse = None if x == 0 else _drop_noise(1 / x)
        number = None if inverse is None else _exact_function(RECIPROCAL_ARGUMENT[name], inverse)
    elif name in QUOTIENTS:
        numerator, denominator = QUOTIENTS[name]
        number = _exact_function(numerator, x) / _exact_function(denominator, x)
    elif name in RECIPROCAL_VALUE:
        number = 1 / _exact_function(RECIPROCAL_VALUE[name], x)
    else:
        number = _exact_function(name, x)
    return None if number is None else _drop_noise(number)


def _exact_function(name: str, x: Any) -> Any:
    """Return the value of a FLINT function, without rounding noise at branch points and zeros."""
    number = getattr(at_branch_point(x, BRANCHES[name][0]) if name in BRANCHES else x, name)()
    has_zeros = name in ("sin", "cos", "sinh", "cosh")
    return _ZERO if has_zeros and magnitude(number) < _NOISE * max(1.0, magnitude(x)) else number


def at_branch_point(x: Any, axis: str) -> Any:
    """Return the branch point if only rounding noise separates `x` from it, else `x`.

    Close to a branch point a function behaves like a square root, which would turn noise of 1e-80 into 1e-40.
    """
    point = branch_point_near(x, axis)
    return x if point is None or magnitude(x - point) >= _NOISE else point


def branch_point_near(x: Any, axis: str) -> Any:
    """Return the branch point, 1 or i or their negatives, that is within 1e-12 along an axis, or None."""
    rough = complex(x)
    along = rough.real if axis == "real" else rough.imag
    if abs(abs(along) - 1) > 1e-12:
        return None
    sign = 1 if along > 0 else -1
    return acb(sign) if axis == "real" else acb(0, sign)


def power(base: Any, exponent: Any) -> Any:
    """Return a power, None where it is undefined or out of range."""
    rough = complex(exponent)
    if base == 0:
        return _ONE if exponent == 0 else _ZERO if rough.real > 0 else None
    logarithm = base.log() * exponent
    if not abs(complex(logarithm).real) <= LOG_LARGEST:
        return None
    if rough.imag == 0 and abs(rough) <= 64 and exponent == round(rough.real):
        return base ** round(rough.real)
    return logarithm.exp()


def magnitude(number: Any) -> float:
    """Return the magnitude of a number in 80 digits, infinite where abs() would raise."""
    rough = complex(number)
    return math.hypot(rough.real, rough.imag)


def _drop_noise(number: Any) -> Any:
    """Return the midpoint of a number, without rounding noise in its real and imaginary parts; None if it is out of range."""
    rough = complex(number)
    size = math.hypot(rough.real, rough.imag)
    if not 1 / LARGEST <= size <= LARGEST:
        return _ZERO if number == 0 else None
    if abs(rough.imag) < _NOISE * size:
        return acb(number.real.mid())
    return number.mid() if abs(rough.real) >= _NOISE * size else acb(0, number.imag.mid())
