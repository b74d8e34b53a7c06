"""Branch cuts: whether a function of an equation is evaluated exactly on its cut or at a branch point, and points where it is.

There the value is a convention: `log(-1)` is `pi*I`, and a rounding error below the axis makes it `-pi*I`. Our labels follow
the convention of FLINT, which is that of Mathematica and of SymPy; arithmetic with rounding may come out on the other side.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from dgl_treestack.truth.evaluation import Exact, Value, children_first
from dgl_treestack.truth.functions import (
    BRANCHES,
    BUDGET,
    MIDPOINTS,
    PRECISIONS,
    RECIPROCAL_ARGUMENT,
    at_branch_point,
    parts_of,
)
from dgl_treestack.truth.points import POINTS, REAL_POINTS, WIDE_POINT, Points

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


def is_on_cut(left: Value, right: Value) -> bool:
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


def points_on_cuts(left: Value, right: Value, budget: int) -> Points:
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


def _root(argument: Value, name: str, place: Any, values: dict[str, Any], exact: Exact) -> Any:
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


def _arguments(value: Value) -> Iterator[tuple[Value, Cut, bool]]:
    """Yield the arguments of an operator that have a cut, the cut, and whether it is that of the argument's reciprocal."""
    if value.name in BRANCHES:
        yield value.children[0], BRANCHES[value.name], False
    elif value.name in RECIPROCAL_ARGUMENT:
        yield value.children[0], BRANCHES[RECIPROCAL_ARGUMENT[value.name]], True
    elif value.name == "log":
        yield from ((child, NEGATIVE, False) for child in value.children)
    elif value.name == "Pow" and value.children[1].name != "NegativeOne":
        yield value.children[0], NEGATIVE, False
