"""Candidate fillers sorted by value: the same class means certified equal, different classes certified different.

A candidate is taken only if it is defined at every point of `truth`, and if against each class it either holds or is
refuted. One that agrees with a class at some points only (`sqrt(x**2)` and `x`) belongs neither to it nor beside it, and is
left out; whichever of the two came first stays. As all members equal their representative at all points, what is certified
of representatives is true of members, so each candidate is compared once per class.

Comparing means one subtraction of arrays against all classes at once, by the rule by which `truth` refutes. The values are
complex128, rounded from 80 digits where complex128 cannot be trusted. Whatever is left, usually nothing or the one equal class,
is judged in full.
"""

from collections.abc import Iterable

import numpy as np

from dgl_treestack.generate.nodes import Node
from dgl_treestack.truth import POINTS, compare
from dgl_treestack.truth.comparison import REFUTED_SHARE

CLEARLY = 1e-6  # the relative gap from which on `truth` calls values different


class ValueClasses:
    """Classes by number, in order of appearance. `representatives`: the first member of each."""

    def __init__(self) -> None:
        self.representatives: list[Node] = []
        self._numbers = np.empty((64, POINTS), complex)

    def place(self, node: Node) -> int | None:
        """The class of a candidate, a new one if need be; None when it has no certified place."""
        if not is_defined(node):
            return None
        numbers = _trusted(node)
        for number in self._not_clearly_different(numbers):
            verdict = verdict_on(self.representatives[number], node)
            if verdict != "refuted":
                return number if verdict == "holds" else None
        return self._open(node, numbers)

    def _not_clearly_different(self, numbers: np.ndarray) -> list[int]:
        gap = relative_gap(self._numbers[: len(self.representatives)], numbers)
        return np.flatnonzero((gap > CLEARLY).sum(axis=1) < REFUTED_SHARE * POINTS).tolist()

    def _open(self, node: Node, numbers: np.ndarray) -> int:
        number = len(self.representatives)
        if number == len(self._numbers):
            self._numbers = np.concatenate([self._numbers, np.empty_like(self._numbers)])
        self._numbers[number] = numbers
        self.representatives.append(node)
        return number


def _trusted(node: Node) -> np.ndarray:
    """The values of an expression that is defined; what was doubtful has been computed in 80 digits to find that out."""
    numbers, value = node.value.number.copy(), node.value
    for point in np.flatnonzero(value.doubt).tolist():
        numbers[point] = complex(value.exact[0 if value.constant else point])
    return numbers


def relative_gap(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The gap between complex values, relative to the larger one; NaN where either is undefined."""
    with np.errstate(all="ignore"):
        gap = np.abs(left - right) / np.maximum(np.abs(left), np.abs(right))
    gap[left == right] = 0.0
    return gap


def is_defined(node: Node) -> bool:
    """Whether the expression has a value at every point."""
    return compare(node.value, node.value, variables_in([node])).points == POINTS


def verdict_on(left: Node, right: Node) -> str:
    """The verdict on left = right."""
    return compare(left.value, right.value, variables_in([left, right])).verdict


def variables_in(nodes: Iterable[Node]) -> list[str]:
    """The names of the variables in some trees."""
    return sorted({name for node in nodes for name in node.variables})
