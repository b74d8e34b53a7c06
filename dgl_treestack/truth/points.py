"""The points at which equations are evaluated: fixed ones, by which data are certified, and fresh ones for every equation.

Further points of an equation are on the branch cuts of its functions. There a value is a convention: `log(-1)` is `pi*I`, and a
rounding error below the axis makes it `-pi*I`. Our labels follow the convention of FLINT, which is that of Mathematica and of
SymPy; arithmetic with rounding may come out on the other side.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import acb, arb, ctx

from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import leaf_value
from dgl_treestack.truth.exact import (
    BRANCHES,
    BUDGET,
    MIDPOINTS,
    PRECISIONS,
    RECIPROCAL_ARGUMENT,
    Exact,
    at_branch_point,
    children_first,
    parts_of,
)

if TYPE_CHECKING:
    from dgl_treestack.truth.evaluation import Value

REAL_POINTS, WIDE_POINT = 8, 16
POINTS = 24
FRESH_POINTS = 42
FAR, VERY_FAR = (3.0, 50.0), (50.0, 1e4)  # sizes
FAR_PARTS, VERY_FAR_PARTS = 6, 2
FAR_IMAGINARY = 2  # the kind of a far point whose imaginary part alone is far
SMALLEST, DECADES, DIRECTIONS = -6, 10, 12  # points on lines: sizes from 1e-6 to 1e4
FAR_SPREAD = 8 * (FAR_PARTS + VERY_FAR_PARTS)
SPREAD_POINTS = FAR_SPREAD + DECADES * DIRECTIONS

Cut = tuple[str, float, float]  # axis, and the open interval of the axis that is not on the cut
NEGATIVE: Cut = ("real", 0.0, math.inf)  # of logarithms and powers
NEAR = 1e-9  # in complex128, relative to the argument
TRIED = 3  # points
# Roots are computed, because no net of lines through the origin has a point on Re x = pi/2, where 1/cos(x)**2 is on a cut.
ON_CUT = (-0.3, 1.3, -3.0, 30.0, 0.3, -1.3, 3.0, -30.0)  # places along the axis of a cut
MOST_ON_CUTS = 32  # points of an equation
STEPS = 12  # of Newton's method in each precision
CONVERGED = dict(zip(PRECISIONS, (90, 200, 700), strict=True))  # bits that a step leaves as they were; it doubles them
ROOT = arb(2) ** -1300  # relative radius of a root: more digits than `NOISE` of the highest precision asks for


@dataclass(frozen=True)
class Points:
    """A value of every variable at `count` points. of: name -> (count,) complex128.

    balls: name -> the value in many digits at every point, of points that complex128 cannot express; empty for others.
    """

    count: int
    of: Callable[[str], np.ndarray]
    balls: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def value_of(variable: str, point: int) -> complex:
    """Return the value of a variable at a point of the fixed set, to four decimals.

    Points 0 to 3 are positive, 4 to 7 real, the others complex.
    """
    return near_origin(*uniform(f"{variable}:{point}")[:2], point)


FIXED = Points(POINTS, lambda variable: np.array([value_of(variable, point) for point in range(POINTS)]))


def fresh(equation: Expression, sets: int = 1) -> Points:
    """Return points that are drawn for one equation, from its text; other names of its variables do not change them.

    sets: how many times `FRESH_POINTS`: 24 near the origin, as the fixed ones, four of each kind of `_far`, two very far.
    """

    def value(key: str, variable: int, _variables: int, number: int) -> complex:
        point = number % FRESH_POINTS
        first, second, third, fourth = uniform(f"{key}:{variable}:{number}")
        if point < POINTS:
            return near_origin(first, second, point)
        kind, sizes = (point - POINTS) % 4, VERY_FAR if point >= FRESH_POINTS - 2 else FAR
        return _far(kind, sizes, (first, second), (third < 0.5, fourth < 0.5))

    return _drawn(equation, sets * FRESH_POINTS, value)


def spread(equation: Expression) -> Points:
    """Return `SPREAD_POINTS` more points for one equation, drawn as `fresh`: far ones, and on lines through the origin.

    Far: one variable is, the others are near. Every kind of `_far` has both signs and a size in each of six parts of `FAR` and
    two of `VERY_FAR`. Which variable is far is drawn, another one for the other sign. On lines: on the half axes, the half
    diagonals and in the four quadrants there is a point in every decade; other variables are on the same line in every second
    decade, near in the others.
    """

    def value(key: str, variable: int, variables: int, number: int) -> complex:
        first, second, third, _ = uniform(f"{key}:{variable}:spread:{number}")
        if number >= FAR_SPREAD:
            decade, direction = divmod(number - FAR_SPREAD, DIRECTIONS)
            is_near = decade % 2 and variable != int(variables * uniform(f"{key}:line:{number}")[0])
            if is_near:
                return near_origin(first, second, number % POINTS)
            size = float(f"{10 ** (SMALLEST + decade + first):.4g}")
            if direction < 4:  # half axes, then half diagonals, then quadrants
                return (complex(size, 0), complex(0, size), complex(-size, 0), complex(0, -size))[direction]
            other_size = size if direction < 8 else float(f"{size * math.tan(0.2 + 1.1 * second):.4g}")
            return complex(size if direction & 1 else -size, other_size if direction & 2 else -other_size)
        kind, sign, part = number % 4, bool(number // 4 % 2), number // 8
        if variable != (int(variables * uniform(f"{key}:far:{kind}:{part}")[0]) + sign) % variables:
            return near_origin(first, second, number % POINTS)
        (low, high), at, parts = (FAR, part, FAR_PARTS) if part < FAR_PARTS else (VERY_FAR, part - FAR_PARTS, VERY_FAR_PARTS)
        start, end = (low * (high / low) ** (edge / parts) for edge in (at, at + 1))
        # the far part has the sign of the point, the other one is drawn
        signs = (third < 0.5, sign) if kind == FAR_IMAGINARY else (sign, third < 0.5)
        return _far(kind, (start, end), (first, second), signs)

    return _drawn(equation, SPREAD_POINTS, value)


def _drawn(equation: Expression, count: int, value: Callable[[str, int, int, int], complex]) -> Points:
    """Return points whose values follow from the text of an equation.

    value: (key of the equation, number of a variable, how many there are, number of a point) -> the variable's value there.
    """
    number_of_name: dict[str, int] = {}
    text = []
    for name, leaf in zip(equation.names, equation.texts, strict=True):
        if name == "Symbol" and leaf is not None:
            leaf = str(number_of_name.setdefault(leaf, len(number_of_name)))
        number = None if leaf is None else leaf_value(name, leaf)  # leaves of equal value are the same leaf here
        text.append(str(number) if number is not None else name if leaf is None else f"{name} {leaf}")
    key = hashlib.sha256("\n".join(text).encode()).hexdigest()

    names = len(number_of_name)
    return Points(count, lambda name: np.array([value(key, number_of_name[name], names, number) for number in range(count)]))


def _far(kind: int, sizes: tuple[float, float], shares: tuple[float, float], negative: tuple[bool, bool]) -> complex:
    """Return a far value. kind: real, far real part, far imaginary part, both. shares: two numbers between 0 and 1."""
    (low, high), (first, second) = sizes, shares
    far, other_far = (low * (high / low) ** share for share in shares)
    near, other_near = 0.15 + 2.35 * first, 0.15 + 1.1 * second
    real, imaginary = ((far, 0.0), (far, other_near), (near, other_far), (far, other_far))[kind]
    real, imaginary = (-real if negative[0] else real), (-imaginary if imaginary and negative[1] else imaginary)
    return complex(round(real, 4), round(imaginary, 4))


def near_origin(first: float, second: float, point: int) -> complex:
    """Return a value near the origin, from two numbers between 0 and 1."""
    if point < 4:
        return complex(round(0.15 + 1.3 * first, 4), 0.0)
    if point < REAL_POINTS:
        return complex(round((0.3 + 2.4 * first) * (1 if second < 0.5 else -1), 4), 0.0)
    width, height = (3.0, 1.1) if point < WIDE_POINT else (6.2, 1.8)
    imaginary = (0.15 + height * abs(2 * second - 1)) * (1 if second < 0.5 else -1)
    return complex(round(width * (first - 0.5), 4), round(imaginary, 4))


def uniform(text: str) -> tuple[float, float, float, float]:
    """Return four numbers from 0 to below 1 that a text decides."""
    digest = hashlib.sha256(text.encode()).digest()
    first, second, third, fourth = (int.from_bytes(digest[i : i + 4], "big") / 2**32 for i in (0, 4, 8, 12))
    return first, second, third, fourth


def is_on_cut(left: "Value", right: "Value") -> bool:
    """Return whether an argument in one of the sides lies on a cut of its function at complex values of the variables.

    At real values that would be nothing special: every `sqrt(x)` is on its cut where x is negative. Arguments near a cut in
    complex128 are decided in 80 digits, at no more than `TRIED` points.
    """
    exact = Exact(BUDGET)
    for value in dict.fromkeys([*children_first(left), *children_first(right)]):
        for argument, cut, is_inverted in _arguments(value):
            number = argument.number
            with np.errstate(all="ignore"):
                along, off = parts_of(1 / number if is_inverted else number, cut[0])
                near = (np.abs(off) <= NEAR * (1 + np.abs(along))) | argument.doubt
            points = [0] if argument.constant else REAL_POINTS + np.flatnonzero(near[REAL_POINTS:])[:TRIED]
            for point in map(int, points):
                place = exact.value(argument, point) if near[point] else None
                if place is None or (is_inverted and place == 0):
                    continue
                place = 1 / place if is_inverted else place
                along, off = parts_of(at_branch_point(place, cut[0], MIDPOINTS), cut[0])
                if off != 0 or cut[1] < along < cut[2]:
                    continue
                exponent = exact.value(value.children[1], point) if value.name == "Pow" else None
                is_whole = exponent is not None and exponent.imag == 0 and complex(exponent).real.is_integer()
                if value.name != "Pow" or (exponent is not None and not is_whole):  # a whole power has no cut
                    return True
    return False


def points_on_cuts(left: "Value", right: "Value", budget: int) -> Points:
    """Return points at which an argument in one of the sides lies on the cut of its function, wherever the cut runs.

    For every argument with variables and for some places on its cut, one variable is computed such that the argument is there;
    the others keep their values at a complex point of those of the sides. budget: operations allowed in 80 digits.
    """
    exact = Exact(budget)
    order = dict.fromkeys([*children_first(left), *children_first(right)])
    variables = [value for value in order if value.name == "Symbol"]
    points: list[dict[str, Any]] = []
    for argument, cut, is_inverted in dict.fromkeys(place for value in order for place in _arguments(value)):
        names = [value.text or "" for value in children_first(argument) if value.name == "Symbol"]
        for number, along in enumerate(along for along in ON_CUT if names and not cut[1] < along < cut[2]):
            start = WIDE_POINT + number % (POINTS - WIDE_POINT)
            values = {value.text or "": acb(complex(value.number[start])) for value in variables}
            name, place = names[number % len(names)], acb(along) if cut[0] == "real" else acb(0, along)
            with ctx.workprec(PRECISIONS[-1]):
                place = 1 / place if is_inverted else place
            root = _root(argument, name, place, values, exact) if len(points) < MOST_ON_CUTS else None
            if root is not None:
                points.append({**values, name: root})
    columns = {value.text or "": [point[value.text or ""] for point in points] for value in variables}
    return Points(len(points), lambda name: np.array([complex(ball) for ball in columns[name]], complex), columns)


def _root(argument: "Value", name: str, place: Any, values: dict[str, Any], exact: Exact) -> Any:
    """Return a ball around the value of a variable at which an argument is at a place, None if Newton's method fails.

    values: of all variables; that of `name` is where the method begins.
    """

    x = values[name]
    for bits, sufficient in CONVERGED.items():
        for _ in range(STEPS):
            with ctx.workprec(bits):
                small = arb(2) ** (-bits // 2)
                here, beside = (exact.value(argument, 0, bits, {**values, name: at}) for at in (x, x * (1 + small)))
                if not isinstance(here, acb) or not isinstance(beside, acb) or (here - beside).contains(0):
                    return None
                step = (here - place) * x * small / (beside - here)
                x, is_converged = (x - step).mid(), abs(step) < abs(x) * arb(2) ** -sufficient
            if is_converged:
                break
        else:
            return None
    with ctx.workprec(PRECISIONS[-1]):
        radius = abs(x) * ROOT
        parts = [arb(0) if abs(part) < radius else arb(part.mid(), radius.mid()) for part in (x.real, x.imag)]
        root = acb(*parts)
        there = exact.value(argument, 0, PRECISIONS[-1], {**values, name: root})
        return root if isinstance(there, acb) and (there - place).contains(0) else None


def _arguments(value: "Value") -> Iterator[tuple["Value", Cut, bool]]:
    """Yield the arguments of an operator that have a cut, the cut, and whether it is that of the argument's reciprocal."""
    if value.name in BRANCHES:
        yield value.children[0], BRANCHES[value.name], False
    elif value.name in RECIPROCAL_ARGUMENT:
        yield value.children[0], BRANCHES[RECIPROCAL_ARGUMENT[value.name]], True
    elif value.name == "log":
        yield from ((child, NEGATIVE, False) for child in value.children)
    elif value.name == "Pow" and value.children[1].name != "NegativeOne":
        yield value.children[0], NEGATIVE, False
