"""A subtree with its values: complex128 at every point, 80 digits where asked for."""

from typing import Any

import numpy as np

from dgl_treestack.truth import exact, float64
from dgl_treestack.truth.points import POINTS

BUDGET = 200_000  # operations in 80 digits per judged equation, about ten seconds


class Value:
    """The values of one subtree at every point; subtrees share their children's.

    number: complex128 per point, NaN where undefined. doubt: points that complex128 cannot be trusted with.
    constant: no variable occurs. exact: point -> value in 80 digits or None where undefined, filled on demand; a constant
    has point 0 only.
    """

    __slots__ = ("children", "constant", "doubt", "exact", "name", "number", "text")

    def __init__(self, name: str, text: str | None, children: tuple["Value", ...] = ()):
        self.name, self.text, self.children = name, text, children
        self.constant: bool = name != "Symbol" and all(child.constant for child in children)
        self.exact: dict[int, Any] = {}
        self.number: np.ndarray
        self.doubt: np.ndarray
        if text is None:
            self.number, self.doubt = float64.apply(name, [c.number for c in children], [c.doubt for c in children])
        else:
            self.number, self.doubt = float64.leaf(name, text)
        if self.constant and self.doubt[0]:
            self._settle_constant()

    def _settle_constant(self) -> None:
        """A doubtful constant is worth one exact evaluation: equations are full of cos(pi) and 1 - 1."""
        value = ExactEvaluation(BUDGET).value(self, 0)
        self.number = np.full(POINTS, np.nan if value is None else complex(value), complex)
        size = abs(self.number[0])
        self.doubt = np.full(POINTS, bool(size > float64.TRUSTED or 0 < size < 1 / float64.TRUSTED))


class ExactEvaluation:
    """Evaluation of single points in 80 digits, each distinct subtree once, within a budget of operations."""

    def __init__(self, budget: int):
        self.budget = budget

    def value(self, root: Value, point: int) -> Any:
        """The mpmath value of a subtree at a point, None where undefined or beyond the budget."""
        pending = [root]
        while pending:
            value = pending[-1]
            missing = [child for child in value.children if _at(child, point) not in child.exact]
            if missing and self.budget <= 0:
                return None
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            if _at(value, point) not in value.exact:
                self._compute(value, point)
        return root.exact[_at(root, point)]

    def _compute(self, value: Value, point: int) -> None:
        self.budget -= 1
        if value.text is not None:
            number = exact.leaf(value.name, value.text, point)
        else:
            number = exact.apply(value.name, [child.exact[_at(child, point)] for child in value.children])
        value.exact[_at(value, point)] = number


def _at(value: Value, point: int) -> int:
    return 0 if value.constant else point
