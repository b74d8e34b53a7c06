"""Values in complex128 at all points at once, and the points at which they cannot be trusted."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.operators import MATH
from dgl_treestack.truth.points import POINTS, value_of
from dgl_treestack.truth.tables import BRANCHES, LARGEST, NEVER_ZERO, RECIPROCAL_ARGUMENT, SATURATING, fraction_of

TRUSTED = 1e6  # complex128 is believed between 1/TRUSTED and TRUSTED
_SATURATED = 6.0


def leaf(kind: str, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of a leaf at every point, and where it is doubtful: two arrays (POINTS,)."""
    doubt = np.zeros(POINTS, bool)
    if kind == "Symbol":
        return np.array([value_of(text, point) for point in range(POINTS)]), doubt
    constants = {"Pi": np.pi, "Exp1": np.e, "NaN": np.nan, "Infinity": np.nan}
    value = constants[kind] if kind in constants else float(fraction_of(kind, text))
    number = np.full(POINTS, value, complex)
    return _settle(number, doubt)


def apply(name: str, arguments: Sequence[np.ndarray], doubts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of an operator at every point, and where it is doubtful, from the values and doubts of its children.

    Raises ExpressionError for an operator without numeric value.
    """
    doubt = doubts[0] | doubts[1] if len(doubts) == 2 else doubts[0].copy()
    function = _power if name == "Pow" else MATH[name].value
    if function is None:
        raise ExpressionError(f"The operator {name!r} has no numeric value.")
    with np.errstate(all="ignore"):  # NumPy warns of exactly those values that are marked as doubtful
        number = function(*arguments)
        _doubt_arguments(name, arguments, number, doubt)
        if name in RECIPROCAL_ARGUMENT:  # to NumPy, arctan(1/0) is pi/2
            undefined = np.isnan(arguments[0]) | (arguments[0] == 0)
        else:  # and nan**0 is 1
            undefined = np.isnan(arguments[0] if len(arguments) == 1 else arguments[0] + arguments[1])
        number[undefined] = np.nan
        return _settle(number, doubt)


def _power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return powers, those of zero by our convention: `0**0` is 1, `0**z` is 0 for Re z > 0, otherwise undefined."""
    number = np.power(base, exponent)
    zero = base == 0
    if zero.any():
        of_zero = np.where(exponent == 0, 1.0, np.where(exponent.real > 0, 0.0, np.nan))
        number[zero] = of_zero[zero]
    return number


def _doubt_arguments(name: str, arguments: Sequence[np.ndarray], number: np.ndarray, doubt: np.ndarray) -> None:
    """Mark the points where an operator loses digits or sits close to a cut."""
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
    """Return where `x` lies on a cut or close to a branch point: the cut is an axis without the open stretch (low, high)."""
    along, off = (x.real, x.imag) if axis == "real" else (x.imag, x.real)
    on_axis = np.abs(off) <= 1e-4 * (1 + np.abs(along))
    exactly = np.abs(off) <= 1e-9 * (1 + np.abs(along))
    free = (along > low) & (along < high)
    ends = (np.abs(along - low) < 1e-4) | (np.abs(along - high) < 1e-4)
    return (exactly & ~free) | (on_axis & ends)


def _settle(number: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
