"""Two evaluated sides, compared point by point: which points must be decided in 80 digits, and what they amount to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dgl_treestack.truth.exact import DIGITS, relative_gap
from dgl_treestack.truth.points import POINTS, value_of
from dgl_treestack.truth.value import ExactEvaluation, Value

REQUIRED_POINTS = 10
REFUTED_SHARE = 0.75
_AT_ONCE = 3  # doubtful points decided before looking whether the others matter
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
    """What a judgement found.

    verdict: "holds", "refuted", "conditional" or "undefined".
    points, agreeing: defined points, and how many of them agree.
    gap: the largest relative gap over the defined points (0.0 when there are none).
    witness: the point with the largest gap when any point disagrees.
    precision: "float64", or "80 digits" when at least one point was decided there.
    """

    verdict: str
    points: int
    agreeing: int
    gap: float
    witness: Witness | None
    precision: str


class Comparison:
    """Two sides, the gap between them per point, and where it was decided.

    wanted: the only verdict of interest, "holds" or "refuted"; work stops when it is clear that it is another one.
    """

    def __init__(self, left: Value, right: Value, variables: Sequence[str], budget: int, wanted: str = ""):
        self.left, self.right, self.variables = left, right, variables
        self.exact = ExactEvaluation(budget)
        a, b = left.number, right.number
        with np.errstate(all="ignore"):
            self.gap = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
        self.gap[a == b] = 0.0
        self.tolerance = np.full(POINTS, _AGREE)
        self.wanted = wanted

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
            some = np.flatnonzero(doubt)[:_AT_ONCE]
            self._decide(some)
            doubt[some] = False
        if doubt.any() and self._is_confirmed(~doubt):
            self.gap[doubt] = np.nan  # whatever they say
            return
        self._decide(np.flatnonzero(doubt))
        apart = self.gap > self.tolerance
        quick, defined = self.tolerance == _AGREE, ~np.isnan(self.gap)
        if apart.any() and ((defined & ~apart).any() or not self._is_confirmed(defined)):
            self._decide(np.flatnonzero(apart & quick))
        elif not apart.any() and not (defined & ~quick).any():
            self._decide(np.flatnonzero(defined)[-1:])  # 1.0000000001*x and x agree in nine digits

    def _decide_constants(self) -> None:
        """Sides without variables have one value, which counts for every point."""
        self._decide([0])
        self.gap[:], self.tolerance[:] = self.gap[0], self.tolerance[0]

    def _is_confirmed(self, decided: np.ndarray) -> bool:
        """Whether the largest gap of the decided points, and another one, are there in 80 digits too.

        A chain of small cancellations can cost complex128 all its digits without any step being doubtful.
        """
        apart = np.flatnonzero(decided & (self.gap > _DIFFER))
        some = {int(apart[self.gap[apart].argmax()]), int(apart[0])} if len(apart) else set()
        self._decide(point for point in some if self.tolerance[point] == _AGREE)
        return all(self.gap[point] > _DIFFER for point in some)

    def _is_settled(self, decided: np.ndarray) -> bool:
        """Whether the decided points are enough to refute, or enough to know that the verdict is not the one wanted."""
        gap = self.gap[decided]
        if (gap > _DIFFER).sum() >= REFUTED_SHARE * POINTS:
            return True
        if not self.wanted:
            return False
        if np.isnan(gap).sum() > POINTS - REQUIRED_POINTS:
            return True
        agreeing = int((gap <= self.tolerance[decided]).sum())
        return agreeing > (1 - REFUTED_SHARE) * POINTS if self.wanted == "refuted" else bool((gap > _DIFFER).any())

    def _decide(self, points: Iterable[int]) -> None:
        for point in points:
            a, b = self.exact.value(self.left, int(point)), self.exact.value(self.right, int(point))
            self.tolerance[point] = _AGREE_EXACT
            self.gap[point] = np.nan if a is None or b is None else relative_gap(a, b)

    def verdict(self) -> Verdict:
        defined = ~np.isnan(self.gap)
        points, agreeing = int(defined.sum()), int((self.gap <= self.tolerance).sum())
        gap = float(self.gap[defined].max()) if points else 0.0
        return Verdict(
            verdict=self._name(points, agreeing, int((self.gap > _DIFFER).sum())),
            points=points,
            agreeing=agreeing,
            gap=gap,
            witness=self._witness() if agreeing < points else None,
            precision="float64" if (self.tolerance == _AGREE).all() else f"{DIGITS} digits",
        )

    def _name(self, points: int, agreeing: int, differing: int) -> str:
        if points < REQUIRED_POINTS:
            return "undefined"
        if agreeing == points:
            confirmed = ~np.isnan(self.gap) & (self.tolerance == _AGREE_EXACT)
            return "holds" if confirmed.any() else "undefined"
        return "refuted" if differing >= REFUTED_SHARE * points else "conditional"

    def _witness(self) -> Witness:
        point = int(np.nanargmax(self.gap))
        left, right = (self._value(side, point) for side in (self.left, self.right))
        return Witness(point, {name: value_of(name, point) for name in self.variables}, left, right)

    def _value(self, side: Value, point: int) -> complex:
        value = self.exact.value(side, point) if self.tolerance[point] == _AGREE_EXACT else None
        return complex(side.number[point] if value is None else value)
