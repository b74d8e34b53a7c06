"""Verdicts on equations that are generated: at the fixed points, whose values a certificate need not repeat.

Sides are compared point by point, and doubtful points are decided in 80 digits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dgl_treestack.expression import Expression
from dgl_treestack.truth.evaluation import Value, evaluate_sides
from dgl_treestack.truth.exact import BUDGET, DIGITS
from dgl_treestack.truth.judgement import AT_ONCE, FLOAT64, REFUTED_SHARE, REQUIRED_POINTS, Sides, Verdict, judge
from dgl_treestack.truth.points import FIXED, POINTS

_AGREE, _AGREE_EXACT, _DIFFER = 1e-9, 1e-33, 1e-6


class Comparison(Sides):
    """The comparison of two sides at the fixed points, in 80 digits where complex128 is in doubt.

    variables: the names that occur in the sides. budget: operations allowed in 80 digits.
    expected: the only verdict of interest, "holds" or "refuted"; evaluation stops when another verdict is certain.
    tolerance: (POINTS,) the largest gap at which the sides agree; it is smaller where 80 digits were used.
    """

    def __init__(self, left: Value, right: Value, variables: Sequence[str], budget: int = BUDGET, expected: str = ""):
        super().__init__(left, right, variables, FIXED, budget)
        self.expected = expected
        self.tolerance = np.full(POINTS, _AGREE)

    def _recheck(self) -> None:
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
        """Decide what complex128 leaves in doubt, and return the verdict that follows from the gaps."""
        self._recheck()
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
    return Comparison(left, right, sorted(variables), budget).verdict()


def judge_rounded(equation: Expression, decimals: int) -> Verdict:
    """Judge an equation between two numbers, one of which is rounded to `decimals`.

    It holds if the sides differ by at most half a unit of the last decimal. `judge` judges an equation with variables.

    Raises ExpressionError as `judge` does.

    >>> judge_rounded(Expression.parse("sin(0.5) = 0.48"), 2).verdict
    'holds'
    """
    left, right = evaluate_sides(equation)
    if not (left.constant and right.constant):
        return judge(equation)
    verdict = Comparison(left, right, ()).verdict()
    a, b = left.exact.get(0), right.exact.get(0)  # None beyond the budget
    if a is None or b is None or abs(complex(a - b)) > 0.5 * 10.0**-decimals * (1 + 1e-9):
        return verdict
    return replace(verdict, verdict="holds", agreeing=verdict.points, gap=0.0, witness=None)
