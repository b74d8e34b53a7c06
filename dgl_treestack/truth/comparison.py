"""Comparison of two evaluated sides, point by point: which points must be decided in 80 digits, and which verdict follows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dgl_treestack.truth.exact import DIGITS, relative_gap
from dgl_treestack.truth.points import POINTS, value_of
from dgl_treestack.truth.value import ExactEvaluation, Value

REQUIRED_POINTS = 10
REFUTED_SHARE = 0.75
_AT_ONCE = 3  # doubtful points decided before looking whether the remaining ones matter
_AGREE, _AGREE_EXACT, _DIFFER = 1e-9, 1e-33, 1e-6


@dataclass(frozen=True)
class Witness:
    """A point at which the two sides differ: `point` is its index in the fixed set, `variables` the values there."""

    point: int
    variables: dict[str, complex]
    left: complex
    right: complex


@dataclass(frozen=True)
class Verdict:
    """The result of a judgement.

    verdict: "holds", "refuted", "conditional" or "undefined".
    points, agreeing: defined points, and how many of them agree.
    gap: the largest relative gap over the defined points (0.0 when there are none).
    witness: the point with the largest gap when any point disagrees.
    precision: "float64", or "80 digits" when at least one point was decided in these.
    """

    verdict: str
    points: int
    agreeing: int
    gap: float
    witness: Witness | None
    precision: str


class Comparison:
    """Two sides, the relative gap between them per point, and the precision in which each point was decided.

    left, right: the evaluated sides. variables: names of the variables in them. budget: operations allowed in 80 digits.
    expected: the only verdict of interest, "holds" or "refuted"; work stops when it is clear that the verdict is another one.

    gap: (POINTS,) NaN where a side is undefined. tolerance: (POINTS,) the largest gap at which the sides agree; it is smaller
    where 80 digits were used.
    """

    def __init__(self, left: Value, right: Value, variables: Sequence[str], budget: int, expected: str = ""):
        self.left, self.right, self.variables = left, right, variables
        self.exact = ExactEvaluation(budget)
        a, b = left.number, right.number
        with np.errstate(all="ignore"):
            self.gap = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
        self.gap[a == b] = 0.0
        self.tolerance = np.full(POINTS, _AGREE)
        self.expected = expected

    def tolerate_rounding(self, half_unit: float) -> None:
        """Decide two constant sides, which may differ by half a unit of the last decimal."""
        self._decide_constants()
        a, b = self.exact.value(self.left, 0), self.exact.value(self.right, 0)
        if a is not None and b is not None and abs(complex(a - b)) <= half_unit * (1 + 1e-9):
            self.gap[:] = 0.0

    def recheck(self) -> None:
        """Decide in 80 digits: doubtful points unless they cannot matter, those that differ from the rest, one if all agree."""
        if not self.variables:
            self._decide_constants()
            return
        doubt = self.left.doubt | self.right.doubt | ((self.gap > _AGREE) & (self.gap < 1e-4))
        while doubt.any() and not self._is_settled(~doubt):
            points = np.flatnonzero(doubt)[:_AT_ONCE]
            self._decide(points)
            doubt[points] = False
        if doubt.any() and self._is_confirmed(~doubt):
            self.gap[doubt] = np.nan  # the decided points suffice, whatever the doubtful ones say
            return
        self._decide(np.flatnonzero(doubt))
        apart = self.gap > self.tolerance
        in_float64, defined = self.tolerance == _AGREE, ~np.isnan(self.gap)
        if apart.any() and ((defined & ~apart).any() or not self._is_confirmed(defined)):
            self._decide(np.flatnonzero(apart & in_float64))
        elif not apart.any() and not (defined & ~in_float64).any():
            self._decide(np.flatnonzero(defined)[-1:])  # 1.0000000001*x and x agree in nine digits

    def _decide_constants(self) -> None:
        """Decide sides without variables: they have one value, which counts for every point."""
        self._decide([0])
        self.gap[:], self.tolerance[:] = self.gap[0], self.tolerance[0]

    def _is_confirmed(self, decided: np.ndarray) -> bool:
        """Return whether the largest gap of the decided points, and another one, remain in 80 digits.

        A chain of small cancellations can cost complex128 all its digits although no step of it is doubtful.
        """
        apart = np.flatnonzero(decided & (self.gap > _DIFFER))
        points = {int(apart[self.gap[apart].argmax()]), int(apart[0])} if len(apart) else set()
        self._decide(point for point in points if self.tolerance[point] == _AGREE)
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
            a, b = self.exact.value(self.left, int(point)), self.exact.value(self.right, int(point))
            self.tolerance[point] = _AGREE_EXACT
            self.gap[point] = np.nan if a is None or b is None else relative_gap(a, b)

    def verdict(self) -> Verdict:
        """Return the verdict that the gaps amount to."""
        defined, in_float64 = ~np.isnan(self.gap), self.tolerance == _AGREE
        points, agreeing = int(defined.sum()), int((self.gap <= self.tolerance).sum())
        differing = int((self.gap > _DIFFER).sum())
        if points < REQUIRED_POINTS:
            name = "undefined"
        elif agreeing == points:
            confirmed = defined & (self.tolerance == _AGREE_EXACT)
            name = "holds" if confirmed.any() else "undefined"
        else:
            name = "refuted" if differing >= REFUTED_SHARE * points else "conditional"
        witness = None
        if agreeing < points:
            point = int(np.nanargmax(self.gap))
            values = []
            for side in (self.left, self.right):
                value = self.exact.value(side, point) if self.tolerance[point] == _AGREE_EXACT else None
                values.append(complex(side.number[point] if value is None else value))
            witness = Witness(point, {name: value_of(name, point) for name in self.variables}, *values)
        gap = float(self.gap[defined].max()) if points else 0.0
        return Verdict(name, points, agreeing, gap, witness, "float64" if in_float64.all() else f"{DIGITS} digits")
