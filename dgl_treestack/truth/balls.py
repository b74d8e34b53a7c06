"""Values of subtrees as balls (FLINT's complex intervals), at one point and in any precision: what is known for certain.

A ball that contains zero, or whose real or imaginary part does, may be zero. It is taken as zero if its radius is only rounding
noise in the given precision, because otherwise no function could be evaluated on its cut; with more digits, what is not zero
separates from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flint import acb, arb, ctx

from dgl_treestack.truth.evaluation import Value
from dgl_treestack.truth.exact import ball_of_leaf, branch_point_near, children_first, exceeds_limits, magnitude, power
from dgl_treestack.truth.functions import BRANCHES, LARGEST, QUOTIENTS, RECIPROCAL_ARGUMENT, RECIPROCAL_VALUE

PRECISIONS = (270, 540, 1440)  # bits, the last of them 430 digits
COSTS = dict(zip(PRECISIONS, (1, 2, 10), strict=True))  # of an operation, in operations of the first precision
NOISE = {bits: arb(2) ** -(4 * bits // 5) for bits in PRECISIONS}  # relative to its operands, the radius of a ball that is zero

UNDEFINED = "undefined"
UNRESOLVED = "unresolved"  # the digits do not suffice to say which value, or whether there is one
Ball = Any  # acb, UNDEFINED or UNRESOLVED
_ZERO, _ONE = acb(0), acb(1)


@dataclass(eq=False)
class Balls:
    """Evaluation of single points, each distinct subtree once, within a budget of operations."""

    budget: int
    _orders: dict[Value, list[Value]] = field(default_factory=dict, init=False, repr=False)
    _values: dict[tuple[int, int], dict[Value, Ball]] = field(default_factory=dict, init=False, repr=False)

    def value(self, root: Value, point: int, bits: int) -> Ball:
        """Return the ball of a subtree at a point; UNRESOLVED beyond the budget."""
        return self._evaluated(root, self._values.setdefault((point, bits), {}), point, bits)

    def at(self, root: Value, variables: Mapping[str, Any], bits: int) -> Ball:
        """As `value`, at other values of the variables."""
        symbols = [value for value in self._order(root) if value.name == "Symbol"]
        return self._evaluated(root, {symbol: variables[symbol.text or ""] for symbol in symbols}, 0, bits)

    def _order(self, root: Value) -> list[Value]:
        if root not in self._orders:
            self._orders[root] = children_first(root)
        return self._orders[root]

    def _evaluated(self, root: Value, at_point: dict[Value, Ball], point: int, bits: int) -> Ball:
        """Return the ball of a subtree, given those at the point that are already there, to which it adds."""
        constant = self._values.setdefault((-1, bits), {})
        with ctx.workprec(bits):
            for value in self._order(root):
                balls = constant if value.constant else at_point
                if value in balls:
                    continue
                if self.budget <= 0:
                    return UNRESOLVED
                self.budget -= COSTS[bits]
                if value.text is None:
                    arguments = [(constant if child.constant else at_point)[child] for child in value.children]
                    balls[value] = _apply(value.name, arguments, bits)
                else:
                    balls[value] = _drop_noise(ball_of_leaf(value, point), NOISE[bits], 0.0)
        return (constant if root.constant else at_point)[root]


def _apply(name: str, arguments: Sequence[Ball], bits: int) -> Ball:
    """Return the ball of an operator: UNDEFINED at poles and where it saturates or grows out of range."""
    if UNDEFINED in arguments:
        return UNDEFINED
    if UNRESOLVED in arguments:
        return UNRESOLVED
    noise, x = NOISE[bits], arguments[0]
    if exceeds_limits(name, x):
        return UNDEFINED
    try:
        number, scale = _value(name, x, arguments, noise)
    except _Unresolved:
        return UNRESOLVED
    return UNDEFINED if number is None else _drop_noise(number, noise, scale)


class _Unresolved(Exception):
    """A case cannot be distinguished from another one in this precision."""


def _value(name: str, x: Any, arguments: Sequence[Any], noise: arb) -> tuple[Any, float]:
    """Return the value of an operator, None where it is undefined, and the size of what may have cancelled in it."""
    if name == "Add":
        return x + arguments[1], max(magnitude(x), magnitude(arguments[1]))
    if name == "Mul":
        return x * arguments[1], 0.0
    if name == "Pow":
        if not x.is_zero() and x.contains(0):
            raise _Unresolved
        return power(x, arguments[1]), 0.0
    if name == "log":
        base = _at_branch_point(arguments[1], "real", noise)
        x = _at_branch_point(x, "real", noise)
        if x == 0 or base == 0 or base == 1:
            return None, 0.0
        return x.log() / base.log(), 0.0
    if name in RECIPROCAL_ARGUMENT:
        inverse = None if x == 0 else _drop_noise(1 / x, noise, 0.0)
        if inverse is None or inverse is UNDEFINED:
            return None, 0.0
        if inverse is UNRESOLVED:
            raise _Unresolved
        return _function(RECIPROCAL_ARGUMENT[name], inverse, noise), 1.0
    if name in QUOTIENTS or name in RECIPROCAL_VALUE:
        numerator, denominator = QUOTIENTS.get(name, ("", RECIPROCAL_VALUE.get(name, "")))
        below = _drop_noise(_function(denominator, x, noise), noise, max(1.0, magnitude(x)))
        if below is UNRESOLVED:
            raise _Unresolved
        if below is UNDEFINED or below == 0:
            return None, 0.0
        return (_function(numerator, x, noise) if numerator else _ONE) / below, max(1.0, magnitude(x))
    return _function(name, x, noise), max(1.0, magnitude(x))


def _function(name: str, x: Any, noise: arb) -> Any:
    """Return the value of a FLINT function, None at a pole."""
    if name not in BRANCHES:
        return getattr(x, name)()
    x = _at_branch_point(x, BRANCHES[name][0], noise)
    number = getattr(x, name)()
    if not number.is_finite():
        if x.is_exact():
            return None
        raise _Unresolved
    return number


def _at_branch_point(x: Any, axis: str, noise: arb) -> Any:
    """Return the branch point if only rounding noise separates `x` from it, else `x`."""
    point = branch_point_near(x, axis)
    is_point = point is not None and (x - point).contains(0) and (x - point).rad() < noise
    return point if is_point else x


def _drop_noise(number: Any, noise: arb, scale: float) -> Ball:
    """Return a number whose parts are zero where they are only noise; UNDEFINED if it is out of range, UNRESOLVED if the digits
    do not say. scale: the size of what may have cancelled in it."""
    if number is None:
        return UNDEFINED
    if not number.is_finite():
        return UNRESOLVED
    size = magnitude(number)
    if number.contains(0):
        if number == 0:
            return _ZERO
        return _ZERO if number.rad() < noise * max(scale, size) else UNRESOLVED
    if not 1 / LARGEST <= size <= LARGEST:
        return UNDEFINED
    real, imag = number.real, number.imag
    least = noise * max(size, scale)
    if not imag.is_zero() and imag.contains(0) and imag.rad() < least:
        number = acb(real, 0)
    if not real.is_zero() and real.contains(0) and real.rad() < least:
        number = acb(0, number.imag)
    return number
