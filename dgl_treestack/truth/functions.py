"""The functions of equations: their branches, poles, growth; the limits within which a value is defined; values in complex128.

Where a value in complex128 cannot be trusted, it is marked as doubtful.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.operators import MATH, leaf_value

LARGEST = 1e20  # beyond, and below its reciprocal, a value is undefined
LOG_LARGEST = 46.0
SATURATED = 23.0  # where tanh is 1 in 20 digits
TRUSTED = 1e6  # complex128 is trusted between 1/TRUSTED and TRUSTED
_SATURATED = 6.0

CONSTANTS = {"Pi": np.pi, "Exp1": np.e, "NaN": np.nan, "Infinity": np.nan}

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
def fraction_of(kind: str, text: str) -> Fraction:
    """Return the exact value of a number leaf; a value that is out of range is replaced by one that fits a float."""
    value = leaf_value(kind, text)
    if value is None:
        raise ExpressionError(unknown("leaf class", kind, ("Symbol", "Integer", "Number", "Pi", "Exp1")))
    in_range = not value or 1 / Fraction(LARGEST) < abs(value) < Fraction(LARGEST)
    return value if in_range else Fraction(10) ** 30  # out of range too, and small enough for a float


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
        return drop_noise(number, doubt)


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


def drop_noise(number: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
