"""Values at one point in 80 digits. None stands for undefined."""

import math
from typing import Any

from mpmath.ctx_mp import MPContext

from dgl_treestack.truth.points import value_of
from dgl_treestack.truth.tables import (
    GROWING,
    LARGEST,
    QUOTIENTS,
    RECIPROCAL_ARGUMENT,
    RECIPROCAL_VALUE,
    SATURATING,
    fraction_of,
)

DIGITS = 80
_NOISE_BITS = 200  # about 1e-60: relative to what a number was computed from, this is zero
_NOISE = MPContext().mpf(2) ** -_NOISE_BITS
_LARGEST_BITS = int(math.log2(LARGEST)) + 1
_LOG_LARGEST = 46.0
_SATURATED = 23.0

_CONTEXT = MPContext()
_CONTEXT.dps = DIGITS


def leaf(kind: str, text: str, point: int) -> Any:
    """The value of a leaf at a point."""
    if kind == "Symbol":
        return _CONTEXT.mpmathify(value_of(text, point))
    if kind in ("Pi", "Exp1"):
        return +_CONTEXT.pi if kind == "Pi" else +_CONTEXT.e
    if kind in ("NaN", "Infinity"):
        return None
    fraction = fraction_of(kind, text)
    return _settled(_CONTEXT.mpf(fraction.numerator) / fraction.denominator)


def apply(name: str, arguments: list) -> Any:
    """The value of an operator, None where it or an argument is undefined."""
    if any(argument is None for argument in arguments):
        return None
    try:
        number = _BINARY[name](*arguments) if name in _BINARY else _unary(name, *arguments)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return None if number is None else _settled(number)


def _unary(name: str, x: Any) -> Any:
    if name in SATURATING and abs(getattr(x, SATURATING[name])) > _SATURATED:
        return None
    if name in GROWING and abs(getattr(x, GROWING[name])) > _LOG_LARGEST:
        return None
    if name in RECIPROCAL_ARGUMENT:
        return None if x == 0 else getattr(_CONTEXT, RECIPROCAL_ARGUMENT[name])(1 / x)
    if name in QUOTIENTS:
        above, below = QUOTIENTS[name]
        return _function(above, x) / _function(below, x)
    if name in RECIPROCAL_VALUE:
        return 1 / _function(RECIPROCAL_VALUE[name], x)
    return _function(name, x)


def _function(name: str, x: Any) -> Any:
    number = getattr(_CONTEXT, name)(x)
    has_zeros = name in ("sin", "cos", "sinh", "cosh")
    return _CONTEXT.zero if has_zeros and abs(number) < _NOISE * max(1, abs(x)) else number


def _sum(a: Any, b: Any) -> Any:
    total = a + b
    return _CONTEXT.zero if abs(total) < _NOISE * max(abs(a), abs(b)) else total


def _power(base: Any, exponent: Any) -> Any:
    if base == 0:
        return _CONTEXT.one if exponent == 0 else _CONTEXT.zero if exponent.real > 0 else None
    logarithm = exponent * _CONTEXT.log(base)
    if abs(logarithm.real) > _LOG_LARGEST:
        return None
    if exponent.imag == 0 and abs(exponent) <= 64 and exponent.real == int(exponent.real):
        return base ** int(exponent.real)
    return _CONTEXT.exp(logarithm)


def _logarithm(x: Any, base: Any) -> Any:
    if x == 0 or base in (0, 1):
        return None
    return _CONTEXT.log(x) / _CONTEXT.log(base)


_BINARY = {
    "Add": _sum,
    "Mul": lambda a, b: a * b,
    "Pow": _power,
    "log": _logarithm,
}


def _settled(number: Any) -> Any:
    """The number without rounding noise in its real and imaginary parts; None when it is out of range."""
    if number == 0:
        return _CONTEXT.zero
    bits = _CONTEXT.mag(number)  # size as a power of two, far cheaper than the absolute value
    if not _CONTEXT.isfinite(number) or abs(bits) > _LARGEST_BITS:
        return None
    real, imaginary = number.real, number.imag
    if _CONTEXT.mag(imaginary) < bits - _NOISE_BITS:
        return real
    return number if _CONTEXT.mag(real) >= bits - _NOISE_BITS else _CONTEXT.mpc(0, imaginary)
