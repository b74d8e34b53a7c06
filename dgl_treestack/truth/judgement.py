"""What a verdict is, and the verdict on any equation: its sides are compared at points drawn for it, near and far.

In complex128 first; where that cannot be trusted, and at some points in any case, by balls whose digits are doubled until they
say whether the sides differ.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from dgl_treestack.expression import Expression
from dgl_treestack.truth.evaluation import CONSTANTS, Value, evaluate_nodes, evaluate_sides
from dgl_treestack.truth.exact import BUDGET, LARGEST, PRECISIONS, SATURATING, UNRESOLVED, Exact, exceeds_limits, magnitude
from dgl_treestack.truth.points import SPREAD_POINTS, Points, fresh, points_on_cuts, spread

REQUIRED_POINTS = 10
REFUTED_SHARE = 0.75
AT_ONCE = 3  # doubtful points to decide before testing whether the remaining ones matter
FLOAT64 = 53  # bits
SAME = 1e-6  # gaps that differ by less are equal: their order would depend on the processor

# Balls at all points, without complex128 first, take 15 ms in place of 1.8 for an equation of depth 1-13.
CLOSE, APART = 1e-9, 1e-4  # relative gaps in complex128 that say, without doubt, that the sides agree or differ
MORE_SETS = 4  # of points, for an equation that has values at a few points only
CONFIRMED = 3  # points where sides that agree are compared in the highest precision
ORDER = (8, 36, 4, 28, 16, 32, 24)  # points to confirm first, of different kinds
DIGITS_THAT_AGREE = 60
STRIDE = 5  # of the points of `spread` that are compared in 80 digits also where complex128 is clear; it meets every direction

OUT_OF_RANGE = f"is beyond {LARGEST:.0e} in size, or below {1 / LARGEST:.0e}"

OPEN, AGREE, DIFFER, NO_VALUE, TOO_FEW_DIGITS = range(5)  # states of a point


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


class Judgement(Sides):
    """The states of the points of an equation.

    state: (P,) of every point. stride: of the points that agree without doubt in complex128, every `stride`-th is compared in
    80 digits, too.
    """

    def __init__(self, left: Value, right: Value, variables: Sequence[str], points: Points, budget: int, stride: int = 1):
        super().__init__(left, right, variables, points, budget)
        self.stride, self.state = stride, np.full(points.count, OPEN)
        clear = ~(left.doubt | right.doubt)
        self.state[clear & (self.gap <= CLOSE)] = AGREE
        self.state[clear & (self.gap >= APART)] = DIFFER
        self.state[clear & np.isnan(self.gap)] = NO_VALUE

    def _decide(self, points: Iterable[int], precisions: Sequence[int] = PRECISIONS) -> None:
        """Decide points by balls, in rising precision until it suffices."""
        for point, bits in product(map(int, points), precisions):
            if bits != precisions[0] and self.state[point] != TOO_FEW_DIGITS:
                continue
            difference, scale = self.compare_exactly(point, bits)
            if difference is None:
                self.state[point] = NO_VALUE
            elif difference is not UNRESOLVED and not difference.contains(0):
                self.state[point] = DIFFER
            elif difference is not UNRESOLVED and difference.rad() <= scale * 10.0**-DIGITS_THAT_AGREE:
                self.state[point] = AGREE
            else:
                self.state[point] = TOO_FEW_DIGITS

    def decide(self) -> None:
        """Decide as many points as the verdict needs."""
        if not self.variables:  # the sides have one value for all points
            self._decide([0], PRECISIONS[-1:])
            for column in (self.state, self.gap, self.precision):
                column[:] = column[0]
            return
        while (doubtful := np.flatnonzero(self.state == OPEN)).size and not self._is_refuted():
            self._decide(doubtful[:AT_ONCE], PRECISIONS[:1])
        if self._is_refuted():  # a chain of cancellations may cost complex128 all its digits without a doubt
            differing = np.flatnonzero(self.state == DIFFER)
            witnesses = sorted({int(differing[0]), int(differing[self.gap[differing].argmax()])})
            self._decide(witnesses)
            if (self.state[witnesses] == DIFFER).all():
                self.state[self.state == OPEN] = NO_VALUE  # the others suffice
                self._decide(np.flatnonzero(self.state == AGREE))
                self._confirm()
                return
            self._decide(differing)
        self._decide(np.flatnonzero(self.state == OPEN), PRECISIONS[:1])
        self._decide(np.flatnonzero(self.state == TOO_FEW_DIGITS), PRECISIONS[1:])
        differ = bool((self.state == DIFFER).any())
        in_float64 = (self.precision == FLOAT64) & np.isin(self.state, (AGREE, DIFFER))
        self._decide(np.flatnonzero(in_float64)[:: 1 if differ else self.stride], PRECISIONS if differ else PRECISIONS[:1])
        self._confirm()

    def _is_refuted(self) -> bool:
        """Return whether the sides differ at three quarters of all points."""
        return bool((self.state == DIFFER).sum() >= REFUTED_SHARE * len(self.state))

    def _confirm(self) -> None:
        """Compare some points that agree in the highest precision, and all of them if one of these differs there."""
        confirmed = 0
        for point in (*ORDER, *range(self.points.count)):
            if point >= self.points.count or self.state[point] != AGREE or self.precision[point] == PRECISIONS[-1]:
                continue
            self._decide([point], PRECISIONS[-1:])
            confirmed += self.state[point] == AGREE
            if self.state[point] == DIFFER:
                self._decide(np.flatnonzero((self.state == AGREE) & (self.precision < PRECISIONS[-1])), PRECISIONS[-1:])
            if self.state[point] != AGREE or confirmed == CONFIRMED:
                break

    def verdict(self) -> Verdict:
        """Return the verdict that follows from the states."""
        agreeing, differing, open_points = (int((self.state == state).sum()) for state in (AGREE, DIFFER, TOO_FEW_DIGITS))
        points, is_highest = agreeing + differing, self.precision == PRECISIONS[-1]
        if points < REQUIRED_POINTS:
            name = "undecided" if points + open_points >= REQUIRED_POINTS else "undefined"
        elif differing:
            name = "refuted" if differing >= REFUTED_SHARE * points else "conditional"
        else:
            confirmed, unclear = (bool((is_highest & (self.state == state)).any()) for state in (AGREE, TOO_FEW_DIGITS))
            name = "holds" if confirmed and not unclear else "undecided"
        gap = float(np.nanmax(self.gap[np.isin(self.state, (AGREE, DIFFER))], initial=0.0))
        witness = self.witness(self.state == DIFFER) if differing else None
        bits = int(self.precision.max())
        precision = "float64" if bits == FLOAT64 else f"{10 * math.floor(bits * math.log10(2) / 10)} digits"
        return Verdict(name, points, agreeing, gap, witness, precision)


def judge(equation: Expression, budget: int = BUDGET) -> Verdict:
    """Judge an equation over `MATH`.

    budget: operations allowed in 80 digits; one in 430 digits counts ten times.

    Raises ExpressionError when the expression is not an equation, nests equations, or has a blank.

    >>> judge(Expression.parse("sin(x)**2 + cos(x)**2 = 1")).verdict
    'holds'
    >>> judge(Expression.parse("log(exp(x)) = x")).verdict
    'conditional'
    """
    variables = sorted({text for _, kind, text in equation.leaves() if kind == "Symbol"})

    def judged_at(points: Points, stride: int = 1) -> Judgement:
        left, right = evaluate_sides(equation, points)
        judgement = Judgement(left, right, variables, points, budget, stride)
        judgement.decide()
        return judgement

    judgement = judged_at(fresh(equation))
    verdict = judgement.verdict()
    if verdict.verdict == "undefined" and verdict.points and variables:
        judgement = judged_at(fresh(equation, MORE_SETS))
        verdict = judgement.verdict()
    count = judgement.points.count
    if verdict.verdict == "holds" and variables:
        verdict = _joined(verdict, judged_at(spread(equation), STRIDE).verdict(), count)
    on_cuts = points_on_cuts(judgement.left, judgement.right, budget // 4) if verdict.verdict == "holds" else None
    if on_cuts and on_cuts.count:
        verdict = _joined(verdict, judged_at(on_cuts).verdict(), count + SPREAD_POINTS)
    return verdict


def _joined(first: Verdict, second: Verdict, count: int) -> Verdict:
    """Return the verdict at two sets of points, of an equation that holds at the first, which has `count` points."""
    witness = second.witness
    return replace(
        first,
        verdict="conditional" if witness else "holds",
        points=first.points + second.points,
        agreeing=first.agreeing + second.agreeing,
        gap=max(first.gap, second.gap),
        witness=witness and replace(witness, point=count + witness.point),
    )


def why_undefined(equation: Expression) -> str:
    """Return in words which subtree of an equation has no value at one of its points, and why; '' if all have one."""
    points = fresh(equation)
    values, exact = evaluate_nodes(equation, points), Exact(BUDGET)
    for point, (node, value) in product(range(points.count), values.items()):
        if exact.value(value, point, PRECISIONS[0]) is not None:
            continue
        name, arguments = value.name, [exact.value(child, point, PRECISIONS[0]) for child in value.children]
        if not arguments:
            reason = "is no number" if name in CONSTANTS else OUT_OF_RANGE
        elif name in SATURATING and exceeds_limits(name, arguments[0]):
            reason = "is too close to its limit for its value there"
        elif name == "Pow" and arguments[0] == 0:
            reason = "divides by zero" if complex(arguments[1]).real < 0 else "is a power of zero without value"
        else:
            is_large = name in ("Add", "Mul", "Pow") or exceeds_limits(name, arguments[0])
            reason = OUT_OF_RANGE if is_large else "is at a pole"
        return f"{equation.subtree(node)} {reason}"
    return ""
