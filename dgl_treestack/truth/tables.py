"""Facts about functions, and the limits within which a finite number of digits decides, for both precisions."""

import math
from fractions import Fraction
from functools import lru_cache

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression import leaf_value

LARGEST = 1e20  # beyond, and below its reciprocal, a value is undefined

# Inverse function -> the axis on which its cut lies, and the open stretch of that axis without a cut.
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
    magnitude = abs(value)
    inside = not magnitude or 1 / Fraction(LARGEST) < magnitude < Fraction(LARGEST)
    return value if inside else Fraction(10) ** 30  # out of range either way, and small enough for a float
