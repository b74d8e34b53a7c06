"""Facts about the functions of equations: branches, poles, growth; the limits within which a value is defined; exact leaves."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.operators import leaf_value

LARGEST = 1e20  # beyond, and below its reciprocal, a value is undefined
LOG_LARGEST = 46.0
SATURATED = 23.0  # where tanh is 1 in 20 digits

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


def constant_of(kind: str, text: str) -> float:
    """Return the value of a leaf that is no variable; NaN if it is undefined."""
    return CONSTANTS[kind] if kind in CONSTANTS else float(fraction_of(kind, text))
