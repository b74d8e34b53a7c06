"""Subtrees with their values: complex128 at every point, 80 digits on demand."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import ctx

from dgl_treestack.truth import exact, float64
from dgl_treestack.truth.points import POINTS

BUDGET = 200_000  # operations in 80 digits per judged equation, about a second


class Value:
    """The values of one subtree at every point; a subtree refers to the values of its children.

    name, text: of the root; text is None for an operator. children: the values of the root's arguments.

    number: (POINTS,) complex128, NaN where undefined. doubt: (POINTS,) bool, where complex128 cannot be trusted.
    constant: whether no variable occurs. exact: point -> value in 80 digits or None where undefined, filled on demand; a
    constant has point 0 only.
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
        if self.constant and self.doubt[0]:  # worth one exact evaluation: equations are full of cos(pi) and 1 - 1
            value = ExactEvaluation(BUDGET).value(self, 0)
            self.number = np.full(POINTS, np.nan if value is None else complex(value), complex)
            size = abs(self.number[0])
            self.doubt = np.full(POINTS, bool(size > float64.TRUSTED or 0 < size < 1 / float64.TRUSTED))


@dataclass(eq=False)
class ExactEvaluation:
    """Evaluation of single points in 80 digits, each distinct subtree once, within a budget of operations."""

    budget: int
    _orders: dict[int, list[Value]] = field(default_factory=dict, init=False, repr=False)

    def value(self, root: Value, point: int) -> Any:
        """Return the value of a subtree at a point, None where it is undefined or beyond the budget."""
        at = 0 if root.constant else point
        if at in root.exact:
            return root.exact[at]
        if id(root) not in self._orders:
            self._orders[id(root)] = _children_first(root)
        with ctx.workprec(exact.BITS):
            for value in self._orders[id(root)]:
                at = 0 if value.constant else point
                if at in value.exact:
                    continue
                if self.budget <= 0:
                    return None
                self.budget -= 1
                if value.text is None:
                    arguments = [child.exact[0 if child.constant else point] for child in value.children]
                    value.exact[at] = exact.apply(value.name, arguments)
                else:
                    value.exact[at] = exact.leaf(value.name, value.text, point)
        return root.exact[at]


def _children_first(root: Value) -> list[Value]:
    """Return the distinct values of a root and below it, children before parents."""
    order: dict[Value, None] = {}
    pending = [(root, False)]
    while pending:
        value, children_done = pending.pop()
        if children_done:
            order[value] = None
        elif value not in order:
            pending.append((value, True))
            pending.extend((child, False) for child in value.children)
    return list(order)
