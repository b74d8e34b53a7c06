"""Values of subtrees: in complex128 at every point, in 80 digits (by FLINT) at one point on demand.

In complex128, all points are evaluated at once, and points with an untrusted result are marked as doubtful. In 80 digits, None
means undefined.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.operators import MATH, leaf_value

# The fixed points at which equations are evaluated
REAL_POINTS, WIDE_POINT = 8, 16
POINTS = 24

# The limits within which finitely many digits can decide
BUDGET = 200_000  # operations in 80 digits per judged equation, about a second
DIGITS = 80
BITS = 270
LARGEST = 1e20  # beyond, and below its reciprocal, a value is undefined

# Facts about functions, for both precisions.
# Inverse function -> the axis of its cut, and the open interval of that axis without a cut.
BRANCHES: dict[str, tuple[str, float, float]] = {
    **{name: ("real", -1.0, 1.0) for name in ("asin", "acos", "atanh")},
    **{name: ("imag", -1.0, 1.0) for name in ("atan", "asinh")},
    "acosh": ("real", 1.0, math.inf),
}
RECIPROCAL_ARGUMENT = {
    "acsc": "asin",
    "asec": "acos",
    "acot": "atan",
    "acsch": "asinh",
    "asech": "acosh",
    "acoth": "atanh",
}
# Function -> the part of its argument, "real" or "imag", in which it saturates.
SATURATING = {"tan": "imag", "cot": "imag", "tanh": "real", "coth": "real"}
RECIPROCAL_VALUE = {"csc": "sin", "sec": "cos", "csch": "sinh", "sech": "cosh"}
NEVER_ZERO = ("exp", "sec", "csc", "sech", "csch")
QUOTIENTS = {"tan": ("sin", "cos"), "cot": ("cos", "sin"), "tanh": ("sinh", "cosh"), "coth": ("cosh", "sinh")}
# Function -> the part of its argument in which it grows exponentially.
GROWING = {
    **dict.fromkeys(("sin", "cos", "csc", "sec"), "imag"),
    **dict.fromkeys(("sinh", "cosh", "csch", "sech", "exp"), "real"),
}


@lru_cache(maxsize=4096)
def value_of(variable: str, point: int) -> complex:
    """Return the value of a variable at a point of the fixed set, to four decimals.

    Points 0 to 3 are positive, 4 to 7 real, the others complex.
    """
    digest = hashlib.sha256(f"{variable}:{point}".encode()).digest()
    first, second = (int.from_bytes(digest[i : i + 4], "big") / 2**32 for i in (0, 4))
    if point < 4:
        return complex(round(0.15 + 1.3 * first, 4), 0.0)
    if point < REAL_POINTS:
        return complex(round((0.3 + 2.4 * first) * (1 if second < 0.5 else -1), 4), 0.0)
    width, height = (3.0, 1.1) if point < WIDE_POINT else (6.2, 1.8)
    imaginary = (0.15 + height * abs(2 * second - 1)) * (1 if second < 0.5 else -1)
    return complex(round(width * (first - 0.5), 4), round(imaginary, 4))


@lru_cache(maxsize=4096)
def fraction_of(kind: str, text: str) -> Fraction:
    """Return the exact value of a number leaf; a value that is out of range is replaced by one that fits a float."""
    value = leaf_value(kind, text)
    if value is None:
        raise ExpressionError(unknown("leaf class", kind, ("Symbol", "Integer", "Number", "Pi", "Exp1")))
    in_range = not value or 1 / Fraction(LARGEST) < abs(value) < Fraction(LARGEST)
    return value if in_range else Fraction(10) ** 30  # out of range too, and small enough for a float


class Value:
    """The values of one subtree at every point; a subtree refers to the values of its children.

    name, text: of the root; text is None for an operator. children: the values of the root's arguments.

    number: (POINTS,) complex128, NaN where undefined. doubt: (POINTS,) bool, where complex128 cannot be trusted.
    constant: whether no variable occurs. exact: point -> value in 80 digits or None where undefined, filled on demand; a
    constant has point 0 only.
    """

    __slots__ = ("children", "constant", "doubt", "exact", "name", "number", "text")

    def __init__(self, name: str, text: str | None, children: tuple["Value", ...] = ()):
        self.name, self.text, self.children = name, text, children
        self.constant: bool = name != "Symbol" and all(child.constant for child in children)
        self.exact: dict[int, Any] = {}
        self.number: np.ndarray
        self.doubt: np.ndarray
        if text is None:
            self.number, self.doubt = apply(name, [c.number for c in children], [c.doubt for c in children])
        elif name == "Symbol":
            self.number = np.array([value_of(text, point) for point in range(POINTS)])
            self.doubt = np.zeros(POINTS, bool)
        else:
            self.number, self.doubt = settle(np.full(POINTS, constant_of(name, text), complex), np.zeros(POINTS, bool))
        if self.constant and self.doubt[0]:  # one exact evaluation pays: cos(pi) and 1 - 1 are frequent
            value = ExactEvaluation(BUDGET).value(self, 0)
            self.number = np.full(POINTS, np.nan if value is None else complex(value), complex)
            size = abs(self.number[0])
            self.doubt = np.full(POINTS, bool(size > TRUSTED or 0 < size < 1 / TRUSTED))


@dataclass(eq=False)
class ExactEvaluation:
    """Evaluation of single points in 80 digits, each distinct subtree once, within a budget of operations."""

    budget: int
    _orders: dict[int, list[Value]] = field(default_factory=dict, init=False, repr=False)

    def value(self, root: Value, point: int) -> Any:
        """Return the value of a subtree at a point, None where it is undefined or beyond the budget."""
        root_point = 0 if root.constant else point
        if root_point in root.exact:
            return root.exact[root_point]
        if id(root) not in self._orders:
            order: dict[Value, None] = {}  # the distinct values of the root and below it, children before parents
            pending = [(root, False)]
            while pending:
                value, children_done = pending.pop()
                if children_done:
                    order[value] = None
                elif value not in order:
                    pending.append((value, True))
                    pending.extend((child, False) for child in value.children)
            self._orders[id(root)] = list(order)
        with ctx.workprec(BITS):
            for value in self._orders[id(root)]:
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
                    value.exact[at] = _exact_leaf(value.name, value.text, point)
        return root.exact[root_point]


# In complex128, at all points at once

TRUSTED = 1e6  # complex128 is trusted between 1/TRUSTED and TRUSTED
_SATURATED = 6.0
_CONSTANTS = {"Pi": np.pi, "Exp1": np.e, "NaN": np.nan, "Infinity": np.nan}


def constant_of(kind: str, text: str) -> float:
    """Return the value of a leaf that is no variable; NaN if it is undefined."""
    return _CONSTANTS[kind] if kind in _CONSTANTS else float(fraction_of(kind, text))


def apply(name: str, arguments: Sequence[np.ndarray], doubts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of an operator at every point, and where it is doubtful, from the values and doubts of its children.

    Raises ExpressionError for an operator without numeric value.
    """
    doubt = doubts[0] | doubts[1] if len(doubts) == 2 else doubts[0].copy()
    function = MATH[name].value
    if function is None:
        raise ExpressionError(f"The operator {name!r} has no numeric value.")
    with np.errstate(all="ignore"):  # NumPy warns of values that are marked as doubtful here
        number = function(*arguments)
        if name == "Pow" and (zero := arguments[0] == 0).any():
            exponent = arguments[1]  # our convention: `0**0` is 1, `0**z` is 0 for Re z > 0, otherwise undefined
            powers_of_zero = np.where(exponent == 0, 1.0, np.where(exponent.real > 0, 0.0, np.nan))
            number[zero] = powers_of_zero[zero]
        _doubt_arguments(name, arguments, number, doubt)
        if name in RECIPROCAL_ARGUMENT:  # NumPy's arctan(1/0) is pi/2
            undefined = np.isnan(arguments[0]) | (arguments[0] == 0)
        else:  # NumPy's nan**0 is 1
            undefined = np.isnan(arguments[0] if len(arguments) == 1 else arguments[0] + arguments[1])
        number[undefined] = np.nan
        return settle(number, doubt)


def _doubt_arguments(name: str, arguments: Sequence[np.ndarray], number: np.ndarray, doubt: np.ndarray) -> None:
    """Mark the points where an operator loses digits or is evaluated close to a cut."""
    x = arguments[0]
    if name in NEVER_ZERO:
        doubt |= number == 0  # underflow
    if name == "Pow":
        doubt |= (number == 0) & (x != 0)
    elif name == "Add":
        a, b = np.abs(x), np.abs(arguments[1])
        large = np.maximum(a, b)
        doubt |= (np.abs(number) < large / TRUSTED) | ((np.minimum(a, b) < large / TRUSTED) & (a != 0) & (b != 0))
    elif name in BRANCHES:
        doubt |= _near_cut(x, *BRANCHES[name])
    elif name in RECIPROCAL_ARGUMENT:
        doubt |= _near_cut(1 / x, *BRANCHES[RECIPROCAL_ARGUMENT[name]])
    elif name in SATURATING:
        doubt |= np.abs(getattr(x, SATURATING[name])) > _SATURATED
    elif name == "log":
        doubt |= (np.abs(arguments[1] - 1) < 1e-4) | (np.abs(x - 1) < 1e-4)


def _near_cut(x: np.ndarray, axis: str, low: float, high: float) -> np.ndarray:
    """Return where `x` is on a cut or close to a branch point. The cut is an axis without the open interval (low, high)."""
    along, off = (x.real, x.imag) if axis == "real" else (x.imag, x.real)
    on_axis = np.abs(off) <= 1e-4 * (1 + np.abs(along))
    exactly = np.abs(off) <= 1e-9 * (1 + np.abs(along))
    free = (along > low) & (along < high)
    ends = (np.abs(along - low) < 1e-4) | (np.abs(along - high) < 1e-4)
    return (exactly & ~free) | (on_axis & ends)


def settle(number: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop rounding noise from real and imaginary parts; mark out-of-range values undefined and untrusted ones doubtful."""
    number = np.ascontiguousarray(number)
    with np.errstate(all="ignore"):
        size = np.abs(number)
        parts = number.view(float).reshape(-1, 2)
        parts[np.abs(parts) <= 1e-13 * size[:, None]] = 0.0
        doubt |= ~(size <= TRUSTED) | ((size < 1 / TRUSTED) & (size != 0))
        outside = ~(size <= LARGEST)
    if outside.any():
        number[outside] = np.nan
    return number, doubt


# In 80 digits, at one point

_NOISE = 2.0**-200  # about 1e-60: a result this small relative to its operands is zero
_LOG_LARGEST = 46.0
_SATURATED_EXACT = 23.0
_ZERO, _ONE = acb(0), acb(1)


def _exact_leaf(kind: str, text: str, point: int) -> Any:
    """Return the value of a leaf at a point, in 80 digits."""
    if kind == "Symbol":
        number = value_of(text, point)
        return acb(number.real, number.imag)
    if kind in ("Pi", "Exp1"):
        return acb.pi() if kind == "Pi" else acb(arb.const_e())
    if kind in ("NaN", "Infinity"):
        return None
    fraction = fraction_of(kind, text)
    return _settle_exact(acb(fraction.numerator) / fraction.denominator)


def _apply_exact(name: str, arguments: list) -> Any:
    """Return the value of an operator, in 80 digits.

    None if an argument is undefined, at a pole, and where the operator saturates or grows out of range.
    """
    for argument in arguments:
        if argument is None:
            return None
    x = arguments[0]
    for part_of, limit in ((SATURATING, _SATURATED_EXACT), (GROWING, _LOG_LARGEST)):
        if name in part_of and abs(getattr(complex(x), part_of[name])) > limit:
            return None
    if name == "Add":
        total, largest = x + arguments[1], max(magnitude(x), magnitude(arguments[1]))
        number = _ZERO if magnitude(total) < _NOISE * largest else total
    elif name == "Mul":
        number = x * arguments[1]
    elif name == "Pow":
        number = _exact_power(x, arguments[1])
    elif name == "log":
        x, base = _at_branch_point(x, "real"), _at_branch_point(arguments[1], "real")
        number = None if x == 0 or base in (0, 1) else x.log() / base.log()
    elif name in RECIPROCAL_ARGUMENT:
        inverse = None if x == 0 else _settle_exact(1 / x)
        number = None if inverse is None else _exact_function(RECIPROCAL_ARGUMENT[name], inverse)
    elif name in QUOTIENTS:
        numerator, denominator = QUOTIENTS[name]
        number = _exact_function(numerator, x) / _exact_function(denominator, x)
    elif name in RECIPROCAL_VALUE:
        number = 1 / _exact_function(RECIPROCAL_VALUE[name], x)
    else:
        number = _exact_function(name, x)
    return None if number is None else _settle_exact(number)


def _exact_function(name: str, x: Any) -> Any:
    """Return the value of a FLINT function, without rounding noise at branch points and zeros."""
    number = getattr(_at_branch_point(x, BRANCHES[name][0]) if name in BRANCHES else x, name)()
    has_zeros = name in ("sin", "cos", "sinh", "cosh")
    return _ZERO if has_zeros and magnitude(number) < _NOISE * max(1.0, magnitude(x)) else number


def _at_branch_point(x: Any, axis: str) -> Any:
    """Return the branch point, 1 or i or their negatives, if only rounding noise separates `x` from it, else `x`.

    Close to a branch point a function behaves like a square root, which would turn noise of 1e-80 into 1e-40.
    """
    rough = complex(x)
    along = rough.real if axis == "real" else rough.imag
    if abs(abs(along) - 1) > 1e-12:
        return x
    sign = 1 if along > 0 else -1
    point = acb(sign) if axis == "real" else acb(0, sign)
    return point if magnitude(x - point) < _NOISE else x


def _exact_power(base: Any, exponent: Any) -> Any:
    power = complex(exponent)
    if base == 0:
        return _ONE if exponent == 0 else _ZERO if power.real > 0 else None
    logarithm = base.log() * exponent
    if not abs(complex(logarithm).real) <= _LOG_LARGEST:
        return None
    if power.imag == 0 and abs(power) <= 64 and exponent == round(power.real):
        return base ** round(power.real)
    return logarithm.exp()


def magnitude(number: Any) -> float:
    """Return the magnitude of a number in 80 digits, infinite where abs() would raise."""
    rough = complex(number)
    return math.hypot(rough.real, rough.imag)


def _settle_exact(number: Any) -> Any:
    """Return the midpoint of a number, without rounding noise in its real and imaginary parts; None if it is out of range."""
    rough = complex(number)
    size = math.hypot(rough.real, rough.imag)
    if not 1 / LARGEST <= size <= LARGEST:
        return _ZERO if number == 0 else None
    if abs(rough.imag) < _NOISE * size:
        return acb(number.real.mid())
    return number.mid() if abs(rough.real) >= _NOISE * size else acb(0, number.imag.mid())
