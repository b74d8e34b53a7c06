"""Values in many digits, at one point on demand: midpoints in 80 digits, and balls (complex intervals) in any precision.

A midpoint that is only rounding noise becomes zero, without proof. A ball is what is known for certain. A ball that contains
zero, or whose real or imaginary part does, may be zero. It is taken as zero if its radius is only rounding noise in the given
precision, because otherwise no function could be evaluated on its cut; with more digits, what is not zero separates from it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from flint import acb, arb, ctx  # 1.2 to 2.9 us for a function in 80 digits, mpmath 11 to 34

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.operators import leaf_value

if TYPE_CHECKING:
    from dgl_treestack.truth.evaluation import Value

LARGEST = 1e20  # beyond, and below its reciprocal, a value is undefined
LOG_LARGEST = 46.0
SATURATED = 23.0  # where tanh is 1 in 20 digits

BUDGET = 200_000  # operations in 80 digits per judged equation, about a second
DIGITS, BITS = 80, 270
PRECISIONS = (270, 540, 1440)  # bits of balls, the last of them 430 digits
_NOISE = 2.0**-200  # about 1e-60: a midpoint this small relative to its operands is zero
_ZERO, _ONE = acb(0), acb(1)

# Inverse function -> the axis of its cut, and the open interval of that axis without a cut.
BRANCHES: dict[str, tuple[str, float, float]] = {
    **{name: ("real", -1.0, 1.0) for name in ("asin", "acos", "atanh")},
    **{name: ("imag", -1.0, 1.0) for name in ("atan", "asinh")},
    "acosh": ("real", 1.0, math.inf),
}
RECIPROCAL_ARGUMENT = {"acsc": "asin", "asec": "acos", "acot": "atan", "acsch": "asinh", "asech": "acosh", "acoth": "atanh"}
# Function -> the part of its argument, "real" or "imag", in which it saturates.
SATURATING = {"tan": "imag", "cot": "imag", "tanh": "real", "coth": "real"}
RECIPROCAL_VALUE = {"csc": "sin", "sec": "cos", "csch": "sinh", "sech": "cosh"}
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


class Unresolved(Exception):
    """The digits do not suffice to say which value, or whether there is one."""


class Midpoints:
    """Which numbers in 80 digits are only rounding noise."""

    def reduced(self, number: Any, scale: float = 0.0) -> Any:
        """Return a number without noise in its parts, None if it is None or out of range. scale: of what may have cancelled."""
        if number is None:
            return None
        rough = complex(number)
        size = math.hypot(rough.real, rough.imag)
        if size < _NOISE * scale:
            return _ZERO
        if not 1 / LARGEST <= size <= LARGEST:
            return _ZERO if number == 0 else None
        if abs(rough.imag) < _NOISE * size:
            return acb(number.real.mid())
        return number.mid() if abs(rough.real) >= _NOISE * size else acb(0, number.imag.mid())

    def is_noise(self, number: Any, scale: float) -> bool:
        """Return whether a number, or a part of one, is zero beside the scale."""
        return magnitude(number) < _NOISE * scale

    def divisor(self, number: Any, scale: float) -> Any:
        """Return a number to divide by, None for zero or out of range."""
        return None if self.is_noise(number, scale) else number


class Intervals:
    """Which balls of a number of bits are only noise; as `Midpoints`, but Unresolved is raised where the bits do not say."""

    def __init__(self, bits: int):
        self.noise = arb(2) ** -(4 * bits // 5)  # relative to its operands, the radius of a ball that is zero

    def reduced(self, number: Any, scale: float = 0.0) -> Any:
        if number is None:
            return None
        if not number.is_finite():
            raise Unresolved
        size = magnitude(number)
        scale = max(size, scale)
        if number.contains(0):
            if number == 0 or self.is_noise(number, scale):
                return _ZERO
            raise Unresolved
        if not 1 / LARGEST <= size <= LARGEST:
            return None
        real, imag = number.real, number.imag
        if not imag.is_zero() and self.is_noise(imag, scale):
            number = acb(real, 0)
        if not real.is_zero() and self.is_noise(real, scale):
            number = acb(0, number.imag)
        return number

    def is_noise(self, number: Any, scale: float) -> bool:
        return bool(number.contains(0) and number.rad() < self.noise * scale)

    def divisor(self, number: Any, scale: float) -> Any:
        below = self.reduced(number, scale)
        return None if below is None or below == 0 else below


MIDPOINTS = Midpoints()
INTERVALS = {bits: Intervals(bits) for bits in PRECISIONS}


def apply_exactly(name: str, arguments: Sequence[Any], noise: Midpoints | Intervals) -> Any:
    """Return the value of an operator, None at poles and where it saturates or grows out of range. Raises Unresolved."""
    x = arguments[0]
    if exceeds_limits(name, x):
        return None
    if name == "Add":
        return noise.reduced(x + arguments[1], max(magnitude(x), magnitude(arguments[1])))
    if name == "Mul":
        return noise.reduced(x * arguments[1])
    if name == "Pow":
        if not x.is_zero() and x.contains(0):
            raise Unresolved
        exponent = arguments[1]
        rough = complex(exponent)
        if x == 0:
            return noise.reduced(_ONE if exponent == 0 else _ZERO if rough.real > 0 else None)
        logarithm = x.log() * exponent
        if not abs(complex(logarithm).real) <= LOG_LARGEST:
            return None
        is_whole = rough.imag == 0 and abs(rough) <= 64 and exponent == round(rough.real)
        return noise.reduced(x ** round(rough.real) if is_whole else logarithm.exp())
    if name == "log":
        x, base = (at_branch_point(argument, "real", noise) for argument in arguments)
        return None if x == 0 or base in (0, 1) else noise.reduced(x.log() / base.log())
    if name in RECIPROCAL_ARGUMENT:
        inverse = None if x == 0 else noise.reduced(1 / x)
        return None if inverse is None else noise.reduced(_function(RECIPROCAL_ARGUMENT[name], inverse, noise), 1.0)
    scale = max(1.0, magnitude(x))
    if name in QUOTIENTS or name in RECIPROCAL_VALUE:
        numerator, denominator = QUOTIENTS.get(name, ("", RECIPROCAL_VALUE.get(name, "")))
        below = noise.divisor(_function(denominator, x, noise), scale)
        if below is None:
            return None
        return noise.reduced((_function(numerator, x, noise) if numerator else _ONE) / below, scale)
    return noise.reduced(_function(name, x, noise), scale)


def _function(name: str, x: Any, noise: Midpoints | Intervals) -> Any:
    """Return the value of a FLINT function, None at a pole."""
    if name not in BRANCHES:
        return getattr(x, name)()
    x = at_branch_point(x, BRANCHES[name][0], noise)
    number = getattr(x, name)()
    if number.is_finite():
        return number
    if x.is_exact():
        return None
    raise Unresolved


def exceeds_limits(name: str, x: Any) -> bool:
    """Return whether an operator saturates, or grows out of range, at its argument."""
    if name in SATURATING:
        return bool(abs(getattr(complex(x), SATURATING[name])) > SATURATED)
    return name in GROWING and bool(abs(getattr(complex(x), GROWING[name])) > LOG_LARGEST)


def parts_of(number: Any, axis: str) -> tuple[Any, Any]:
    """Return the part of a number along an axis, "real" or "imag", and the other one."""
    return (number.real, number.imag) if axis == "real" else (number.imag, number.real)


def at_branch_point(x: Any, axis: str, noise: Midpoints | Intervals) -> Any:
    """Return the branch point on an axis, 1 or i or their negatives, if only noise separates `x` from it, else `x`.

    Close to a branch point a function behaves like a square root, which would turn noise of 1e-80 into 1e-40.
    """
    along, _ = parts_of(complex(x), axis)  # in many digits only near the branch point
    if abs(abs(along) - 1) > 1e-12:
        return x
    sign = 1 if along > 0 else -1
    point = acb(sign) if axis == "real" else acb(0, sign)
    return point if noise.is_noise(x - point, 1.0) else x


def magnitude(number: Any) -> float:
    """Return the magnitude of a number in many digits, infinite where abs() would raise."""
    rough = complex(number)
    return math.hypot(rough.real, rough.imag)


COSTS = dict(zip((0, *PRECISIONS), (1, 1, 2, 10), strict=True))  # of an operation, in operations of the first precision
# FLINT's radius of a complex atan grows by a third in every step, so chains of thousands stay unresolved.
UNRESOLVED = "unresolved"  # the digits do not suffice to say which value, or whether there is one


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


@dataclass(eq=False)
class Exact:
    """Evaluation of single points in many digits, each distinct subtree once, within a budget of operations.

    Of no bits, a value is a midpoint in 80 digits, whose noise is zero; it is kept by the `Value`. Of some of `PRECISIONS`, it
    is a ball, or UNRESOLVED, and kept here.
    """

    budget: int
    _order: Callable[["Value"], list["Value"]] = field(default_factory=lambda: cache(children_first), init=False, repr=False)
    _balls: dict[tuple[int, int], dict["Value", Any]] = field(default_factory=dict, init=False, repr=False)

    def value(self, root: "Value", point: int, bits: int = 0, variables: Mapping[str, Any] | None = None) -> Any:
        """Return the value of a subtree at a point, None where it is undefined.

        Beyond the budget, a midpoint is None and a ball UNRESOLVED. variables: balls in place of the variables at the point.
        """
        if not bits and (0 if root.constant else point) in root.exact:
            return root.exact[0 if root.constant else point]
        noise, order = (INTERVALS[bits] if bits else MIDPOINTS), self._order(root)
        constant, varying = (self._balls.setdefault((at, bits), {}) for at in (-1, point))
        if variables is not None:
            varying = {value: variables[value.text or ""] for value in order if value.name == "Symbol"}
        store: dict[Any, Any]
        key: Any
        with ctx.workprec(bits or BITS):
            for value in order:  # the root is the last
                if bits:
                    store, key = (constant if value.constant else varying), value
                else:
                    store, key = value.exact, 0 if value.constant else point
                if key in store:
                    continue
                if self.budget <= 0:
                    return UNRESOLVED if bits else None
                self.budget -= COSTS[bits]
                if bits:
                    arguments = [(constant if child.constant else varying)[child] for child in value.children]
                else:
                    arguments = [child.exact[0 if child.constant else point] for child in value.children]
                try:
                    if value.text is not None:
                        store[key] = _leaf(value, point, noise)
                    elif None in arguments:
                        store[key] = None
                    elif bits and UNRESOLVED in arguments:
                        store[key] = UNRESOLVED
                    else:
                        store[key] = apply_exactly(value.name, arguments, noise)
                except Unresolved:
                    store[key] = UNRESOLVED
        return store[key]


def _leaf(leaf: "Value", point: int, noise: Midpoints | Intervals) -> Any:
    """Return the value of a leaf at a point in the current precision, None for a leaf without value."""
    if leaf.name == "Symbol":
        number = leaf.exact.get(point)
        return noise.reduced(acb(complex(leaf.number[point])) if number is None else number)
    if leaf.name in ("Pi", "Exp1"):
        return acb.pi() if leaf.name == "Pi" else acb(arb.const_e())
    if leaf.name in ("NaN", "Infinity"):
        return None
    fraction = fraction_of(leaf.name, leaf.text or "")
    return noise.reduced(acb(fraction.numerator) / fraction.denominator)
