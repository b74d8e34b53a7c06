"""Whether a function of an equation is evaluated exactly on its branch cut, or at a branch point.

There the value is a convention: `log(-1)` is `pi*I`, and a rounding error below the axis makes it `-pi*I`. Our labels follow
the convention of FLINT, which is that of Mathematica and of SymPy; arithmetic with rounding may come out on the other side.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dgl_treestack.truth.evaluation import Value
from dgl_treestack.truth.exact import BUDGET, ExactEvaluation, at_branch_point, children_first
from dgl_treestack.truth.functions import BRANCHES, RECIPROCAL_ARGUMENT
from dgl_treestack.truth.points import REAL_POINTS

Cut = tuple[str, float, float]  # axis, and the open interval of the axis that is not on the cut
NEGATIVE: Cut = ("real", 0.0, math.inf)  # of logarithms and powers
NEAR = 1e-9  # in complex128, relative to the argument
TRIED = 3  # points


def is_on_cut(left: Value, right: Value) -> bool:
    """Return whether an argument in one of the sides lies on a cut of its function at complex values of the variables.

    At real values that would be nothing special: every `sqrt(x)` is on its cut where x is negative. Arguments near a cut in
    complex128 are decided in 80 digits, at no more than `TRIED` points.
    """
    exact = ExactEvaluation(BUDGET)
    for value in dict.fromkeys([*children_first(left), *children_first(right)]):
        for argument, cut, is_inverted in _arguments(value):
            number = argument.number
            with np.errstate(all="ignore"):
                along, off = _parts(1 / number if is_inverted else number, cut)
                near = (np.abs(off) <= NEAR * (1 + np.abs(along))) | argument.doubt
            points = [0] if argument.constant else REAL_POINTS + np.flatnonzero(near[REAL_POINTS:])[:TRIED]
            for point in points:
                is_on = near[point] and _is_on(exact.value(argument, int(point)), cut, is_inverted)
                if is_on and _has_cut(value, exact, int(point)):
                    return True
    return False


def _arguments(value: Value) -> Iterator[tuple[Value, Cut, bool]]:
    """Yield the arguments of an operator that have a cut, the cut, and whether it is that of the argument's reciprocal."""
    if value.name in BRANCHES:
        yield value.children[0], BRANCHES[value.name], False
    elif value.name in RECIPROCAL_ARGUMENT:
        yield value.children[0], BRANCHES[RECIPROCAL_ARGUMENT[value.name]], True
    elif value.name == "log":
        yield from ((child, NEGATIVE, False) for child in value.children)
    elif value.name == "Pow":
        yield value.children[0], NEGATIVE, False


def _parts(number: Any, cut: Cut) -> tuple[Any, Any]:
    """Return the part of a number along the axis of a cut, and the other one."""
    return (number.real, number.imag) if cut[0] == "real" else (number.imag, number.real)


def _is_on(number: Any, cut: Cut, is_inverted: bool) -> bool:
    """Return whether a value in 80 digits, or its reciprocal, is on a cut; not if it is undefined."""
    if number is None or (is_inverted and number == 0):
        return False
    along, off = _parts(at_branch_point(1 / number if is_inverted else number, cut[0]), cut)
    return bool(off == 0) and not (along > cut[1] and along < cut[2])


def _has_cut(value: Value, exact: ExactEvaluation, point: int) -> bool:
    """Return whether an operator has a cut at all: a power with a whole exponent has none."""
    if value.name != "Pow":
        return True
    exponent = exact.value(value.children[1], point)
    return exponent is not None and not (exponent.imag == 0 and complex(exponent).real.is_integer())
