"""Values at one point in 80 digits, by FLINT. None stands for undefined."""

from math import hypot
from typing import Any

from flint import acb, arb

from dgl_treestack.truth.points import value_of
from dgl_treestack.truth.tables import (
    BRANCHES,
    GROWING,
    LARGEST,
    QUOTIENTS,
    RECIPROCAL_ARGUMENT,
    RECIPROCAL_VALUE,
    SATURATING,
    fraction_of,
)

DIGITS = 80
BITS = 270
_NOISE = 2.0**-200  # about 1e-60: relative to what a number was computed from, this is zero
_LOG_LARGEST = 46.0
_SATURATED = 23.0

_ZERO, _ONE = acb(0), acb(1)


def leaf(kind: str, text: str, point: int) -> Any:
    """Return the value of a leaf at a point."""
    if kind == "Symbol":
        number = value_of(text, point)
        return acb(number.real, number.imag)
    if kind in ("Pi", "Exp1"):
        return acb.pi() if kind == "Pi" else acb(arb.const_e())
    if kind in ("NaN", "Infinity"):
        return None
    fraction = fraction_of(kind, text)
    return _settled(acb(fraction.numerator) / fraction.denominator)


def apply(name: str, arguments: list) -> Any:
    """Return the value of an operator.

    None where an argument is undefined, at a pole, and where the operator saturates or grows out of range.
    """
    for argument in arguments:
        if argument is None:
            return None
    x = arguments[0]
    for part_of, limit in ((SATURATING, _SATURATED), (GROWING, _LOG_LARGEST)):
        if name in part_of and abs(getattr(complex(x), part_of[name])) > limit:
            return None
    if name in _BINARY:
        number = _BINARY[name](*arguments)
    elif name in RECIPROCAL_ARGUMENT:
        inverse = None if x == 0 else _settled(1 / x)
        number = None if inverse is None else _function(RECIPROCAL_ARGUMENT[name], inverse)
    elif name in QUOTIENTS:
        numerator, denominator = QUOTIENTS[name]
        number = _function(numerator, x) / _function(denominator, x)
    elif name in RECIPROCAL_VALUE:
        number = 1 / _function(RECIPROCAL_VALUE[name], x)
    else:
        number = _function(name, x)
    return None if number is None else _settled(number)


def relative_gap(a: Any, b: Any) -> float:
    """Return |a - b| relative to the larger of the two."""
    scale = max(_size(a), _size(b))
    return _size(a - b) / scale if scale else 0.0


def _function(name: str, x: Any) -> Any:
    """Return the value of a function of FLINT, at a branch point and at a zero without rounding noise."""
    number = getattr(_at_branch_point(x, BRANCHES[name][0]) if name in BRANCHES else x, name)()
    has_zeros = name in ("sin", "cos", "sinh", "cosh")
    return _ZERO if has_zeros and _size(number) < _NOISE * max(1.0, _size(x)) else number


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
    return point if _size(x - point) < _NOISE else x


def _sum(a: Any, b: Any) -> Any:
    total = a + b
    return _ZERO if _size(total) < _NOISE * max(_size(a), _size(b)) else total


def _power(base: Any, exponent: Any) -> Any:
    power = complex(exponent)
    if base == 0:
        return _ONE if exponent == 0 else _ZERO if power.real > 0 else None
    logarithm = base.log() * exponent
    if not abs(complex(logarithm).real) <= _LOG_LARGEST:
        return None
    if power.imag == 0 and abs(power) <= 64 and exponent == round(power.real):
        return base ** round(power.real)
    return logarithm.exp()


def _logarithm(x: Any, base: Any) -> Any:
    x, base = _at_branch_point(x, "real"), _at_branch_point(base, "real")
    return None if x == 0 or base in (0, 1) else x.log() / base.log()


_BINARY = {
    "Add": _sum,
    "Mul": lambda a, b: a * b,
    "Pow": _power,
    "log": _logarithm,
}


def _size(number: Any) -> float:
    rough = complex(number)
    return hypot(rough.real, rough.imag)  # infinite where abs() would raise


def _settled(number: Any) -> Any:
    """Return the midpoint of a number, without rounding noise in its real and imaginary parts; None when it is out of range."""
    rough = complex(number)
    size = hypot(rough.real, rough.imag)
    if not 1 / LARGEST <= size <= LARGEST:
        return _ZERO if number == 0 else None
    if abs(rough.imag) < _NOISE * size:
        return acb(number.real.mid())
    return number.mid() if abs(rough.real) >= _NOISE * size else acb(0, number.imag.mid())
