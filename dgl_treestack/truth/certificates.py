"""Verdicts on equations that are generated: at the fixed points, whose values a certificate need not repeat.

Sides are compared point by point, and doubtful points are decided in 80 digits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.truth.evaluation import UNRESOLVED, Exact, Value
from dgl_treestack.truth.functions import BUDGET, DIGITS, magnitude
from dgl_treestack.truth.points import FIXED, POINTS, Points

REQUIRED_POINTS = 10
REFUTED_SHARE = 0.75
AT_ONCE = 3  # doubtful points to decide before testing whether the remaining ones matter
_AGREE, _AGREE_EXACT, _DIFFER = 1e-9, 1e-33, 1e-6
FLOAT64 = 53  # bits
SAME = 1e-6  # gaps that differ by less are equal: their order would depend on the processor


@dataclass(frozen=True)
class Witness:
    """A point at which the two sides differ: `point` is its index, `variables` the values there."""

    point: int
    variables: dict[str, complex]
    left: complex
    right: complex


@dataclass(frozen=True)
class Verdict:
    """The result of a judgement.

    verdict: "holds", "refuted", "conditional", "undefined" or, from `judge` alone, "undecided".
    points, agreeing: defined points, and how many of them agree.
    gap: the largest relative gap over the defined points (0.0 if there are none).
    witness: the point with the largest gap, the first of equal ones, if the sides disagree at any point.
    precision: "float64", or the digits in which points were decided, such as "80 digits".
    """

    verdict: str
    points: int
    agreeing: int
    gap: float
    witness: Witness | None
    precision: str

    @property
    def certificate(self) -> dict[str, Any]:
        """What a data file says of the verdict: name, defined points, and the digits in which they were decided."""
        digits = 15 if self.precision == "float64" else int(self.precision.split()[0])
        return {"verdict": self.verdict, "points": self.points, "digits": digits}


def relative_gap(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return (..., P) how far values are apart, relative to the larger one; NaN where one is undefined."""
    with np.errstate(all="ignore"):
        gap: np.ndarray = np.abs(left - right) / np.maximum(np.abs(left), np.abs(right))
    gap[left == right] = 0.0
    return gap


class Sides:
    """Two evaluated sides, compared point by point.

    left, right: the values of the sides. variables: names of the variables in them. points: where they were evaluated.
    budget: operations allowed in 80 digits.

    gap: (P,) relative, NaN where a side is undefined. precision: (P,) bits in which a point was decided: `FLOAT64`, some of
    `PRECISIONS`, or 0 for midpoints in 80 digits.
    """

    def __init__(self, left: Value, right: Value, variables: Sequence[str], points: Points, budget: int):
        self.left, self.right, self.variables, self.points = left, right, variables, points
        self.exact = Exact(budget)
        self.gap = relative_gap(left.number, right.number)
        self.precision = np.full(points.count, FLOAT64)

    def compare_exactly(self, point: int, bits: int) -> tuple[Any, float]:
        """Set gap and precision of a point from its values in many digits.

        Returns their difference, None where a side is undefined, UNRESOLVED where digits are missing, and their magnitude.
        """
        self.precision[point] = bits
        a, b = self.exact.value(self.left, point, bits), self.exact.value(self.right, point, bits)
        if a is None or b is None:
            self.gap[point] = np.nan
            return None, 0.0
        if a is UNRESOLVED or b is UNRESOLVED:
            return UNRESOLVED, 0.0
        difference, scale = a - b, max(magnitude(a), magnitude(b))
        self.gap[point] = magnitude(difference) / scale if scale else 0.0
        return difference, scale

    def witness(self, differing: np.ndarray) -> Witness:
        """Return the point with the largest gap of a mask (P,) of points, the first of nearly equal ones."""
        point = int(np.flatnonzero(differing & (self.gap >= (1 - SAME) * self.gap[differing].max()))[0])
        bits = int(self.precision[point])
        variables = {name: complex(self.points.of(name)[point]) for name in self.variables}
        sides = (self.left, self.right)
        values = [side.number[point] if bits == FLOAT64 else self.exact.value(side, point, bits) for side in sides]
        return Witness(point, variables, *map(complex, values))


class Comparison(Sides):
    """The comparison of two sides at the fixed points, in 80 digits where complex128 is in doubt.

    expected: the only verdict of interest, "holds" or "refuted"; evaluation stops when another verdict is certain.
    tolerance: (POINTS,) the largest gap at which the sides agree; it is smaller where 80 digits were used.
    """

    def __init__(self, left: Value, right: Value, variables: Sequence[str], budget: int, expected: str = ""):
        super().__init__(left, right, variables, FIXED, budget)
        self.expected = expected
        self.tolerance = np.full(POINTS, _AGREE)

    def recheck(self) -> None:
        """Decide in 80 digits: doubtful points unless they cannot matter, those that differ from the rest, one if all agree."""
        if not self.variables:  # the sides have one value for all points
            self._decide([0])
            for column in (self.gap, self.precision, self.tolerance):
                column[:] = column[0]
            return
        doubt = self.left.doubt | self.right.doubt | ((self.gap > _AGREE) & (self.gap < 1e-4))
        while doubt.any() and not self._is_settled(~doubt):
            points = np.flatnonzero(doubt)[:AT_ONCE]
            self._decide(points)
            doubt[points] = False
        if doubt.any() and self._is_confirmed(~doubt):
            self.gap[doubt] = np.nan  # the decided points suffice to refute
            return
        self._decide(np.flatnonzero(doubt))
        apart = self.gap > self.tolerance
        in_float64, defined = self.precision == FLOAT64, ~np.isnan(self.gap)
        if apart.any() and ((defined & ~apart).any() or not self._is_confirmed(defined)):
            self._decide(np.flatnonzero(apart & in_float64))
        elif not apart.any() and not (defined & ~in_float64).any():
            self._decide(np.flatnonzero(defined)[-1:])  # 1.0000000001*x and x agree in nine digits

    def _is_confirmed(self, decided: np.ndarray) -> bool:
        """Return whether the largest gap of the decided points, and another one, remain in 80 digits.

        A chain of small cancellations can cost complex128 all its digits although no step of it is doubtful.
        """
        apart = np.flatnonzero(decided & (self.gap > _DIFFER))
        points = {int(apart[self.gap[apart].argmax()]), int(apart[0])} if len(apart) else set()
        self._decide(point for point in points if self.precision[point] == FLOAT64)
        return all(self.gap[point] > _DIFFER for point in points)

    def _is_settled(self, decided: np.ndarray) -> bool:
        """Return whether the decided points suffice to refute, or to know that the verdict is not the expected one."""
        gap = self.gap[decided]
        if (gap > _DIFFER).sum() >= REFUTED_SHARE * POINTS:
            return True
        if not self.expected:
            return False
        if np.isnan(gap).sum() > POINTS - REQUIRED_POINTS:
            return True
        agreeing = int((gap <= self.tolerance[decided]).sum())
        return agreeing > (1 - REFUTED_SHARE) * POINTS if self.expected == "refuted" else bool((gap > _DIFFER).any())

    def _decide(self, points: Iterable[int]) -> None:
        """Replace the gap at some points by the gap in 80 digits."""
        for point in points:
            self.compare_exactly(int(point), 0)
            self.tolerance[point] = _AGREE_EXACT

    def verdict(self) -> Verdict:
        """Return the verdict that follows from the gaps."""
        defined, in_float64 = ~np.isnan(self.gap), self.precision == FLOAT64
        points, agreeing = int(defined.sum()), int((self.gap <= self.tolerance).sum())
        if points < REQUIRED_POINTS:
            name = "undefined"
        elif agreeing == points:
            name = "holds" if (defined & ~in_float64).any() else "undefined"
        else:
            name = "refuted" if (self.gap > _DIFFER).sum() >= REFUTED_SHARE * points else "conditional"
        witness = self.witness(defined) if agreeing < points else None
        gap = float(self.gap[defined].max()) if points else 0.0
        return Verdict(name, points, agreeing, gap, witness, "float64" if in_float64.all() else f"{DIGITS} digits")


def judge_at_fixed_points(equation: Expression, budget: int = BUDGET) -> Verdict:
    """Return the verdict on an equation over `MATH`. budget: operations allowed in 80 digits.

    Raises ExpressionError when the expression is not an equation, nests equations, or has a blank.
    """
    left, right = evaluate_sides(equation)
    variables = {text for _, kind, text in equation.leaves() if kind == "Symbol"}
    return compare(left, right, sorted(variables), budget)


def compare(left: Value, right: Value, variables: Sequence[str], budget: int = BUDGET, expected: str = "") -> Verdict:
    """Return the verdict on two sides that are already evaluated.

    variables: the names that occur in them. budget: operations allowed in 80 digits. expected: see `Comparison`.
    """
    comparison = Comparison(left, right, variables, budget, expected)
    comparison.recheck()
    return comparison.verdict()


def evaluate_sides(equation: Expression, points: Points = FIXED) -> list[Value]:
    """Return the values of the two sides of an equation. Raises ExpressionError as `evaluate_nodes` does."""
    values = evaluate_nodes(equation, points)
    return [values[side] for side in equation.children(0)]


def evaluate_nodes(equation: Expression, points: Points = FIXED) -> dict[int, Value]:
    """Return the values of the nodes of an equation below its root, the last node first; equal subtrees are evaluated once.

    Raises ExpressionError for what is no equation, or has no value.
    """
    problem = ""
    if equation.names[0] != "Equality":
        problem = f"Only an equation holds or does not; the root here is {equation.names[0]!r}. Put '=' between two sides."
    elif "Equality" in equation.names[1:]:
        problem = "An equation inside an equation has no value. Judge them one by one."
    elif "Blank" in equation.names:
        problem = f"Node {equation.names.index('Blank')} is a blank `_`, which has no value. Fill it in first."
    if problem:
        raise ExpressionError(problem)
    distinct: dict[tuple, Value] = {}
    values: dict[int, Value] = {}
    for i in range(equation.size - 1, 0, -1):
        children = tuple(values[child] for child in equation.children(i))
        key = (equation.names[i], equation.texts[i], *map(id, children))
        if key not in distinct:
            distinct[key] = Value(equation.names[i], equation.texts[i], children, points)
        values[i] = distinct[key]
    return values
