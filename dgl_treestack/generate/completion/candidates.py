"""Candidate fillers in classes of equal value: the same class means certified equal, different classes certified different.

A candidate is accepted only if it is defined at every point of `truth`, and if its equality with each class holds or is
refuted. A candidate that agrees with a class at some points only (`sqrt(x**2)` and `x`) is neither equal to it nor different
and is refused; the first of the two is kept. All members equal the first member of their class at all points, so a verdict on
the first member is true of all, and each candidate is compared once per class.

A comparison subtracts arrays, for all classes at once, by the rule by which `truth` refutes. The values are complex128,
rounded from 80 digits where complex128 cannot be trusted. The remaining classes, usually none or the equal one, are judged in
full.

A line of a candidate file is an expression without a label, with an `id` and its `class`. The order is by depth, size and text,
and classes are numbered in that order, so that neither distinguishes the truths from the other candidates.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.generate.nodes import Node, to_expression
from dgl_treestack.truth import POINTS, compare
from dgl_treestack.truth.certificates import REFUTED_SHARE

CLEARLY = 1e-6  # the relative gap above which `truth` calls values different


@dataclass(eq=False)
class CandidateSet:
    """Candidates over one pool. Add all of them before reading `ordered`. members: candidate -> number of its class."""

    members: dict[Node, int] = field(default_factory=dict)
    _refused: set[Node] = field(default_factory=set)
    _representatives: list[Node] = field(default_factory=list)  # the first member of each class
    _numbers: np.ndarray = field(default_factory=lambda: np.empty((64, POINTS), complex))  # the values of the representatives

    def add(self, node: Node) -> int | None:
        """Add a candidate; return the number of its class, or None if it has no certified class and is refused."""
        if node in self.members or node in self._refused:
            return self.members.get(node)
        self._refused.add(node)  # removed when it has a class
        if not is_defined(node):
            return None
        value, numbers = node.value, node.value.number.copy()
        for point in np.flatnonzero(value.doubt).tolist():  # these were evaluated in 80 digits by `is_defined`
            numbers[point] = complex(value.exact[0 if value.constant else point])
        count = len(self._representatives)
        gap = relative_gap(self._numbers[:count], numbers)
        for number in np.flatnonzero((gap > CLEARLY).sum(axis=1) < REFUTED_SHARE * POINTS).tolist():
            verdict = verdict_on(self._representatives[number], node)
            if verdict == "holds":
                break
            if verdict != "refuted":
                return None
        else:  # it differs from all classes
            number = count
            if count == len(self._numbers):
                self._numbers = np.concatenate([self._numbers, np.empty_like(self._numbers)])
            self._numbers[count] = numbers
            self._representatives.append(node)
        self._refused.remove(node)
        self.members[node] = number
        return number

    @cached_property
    def ordered(self) -> dict[Node, str]:
        """The candidates in file order -> the names of their classes."""
        texts = {node: str(to_expression(node)) for node in self.members}
        nodes = sorted(texts, key=lambda node: (node.depth, node.size, texts[node]))
        names: dict[int, str] = {}
        return {node: names.setdefault(self.members[node], f"c{len(names)}") for node in nodes}

    def rows(self, prefix: str) -> Iterator[dict[str, Any]]:
        """Yield the lines of the file; ids begin with `prefix`."""
        for number, (node, name) in enumerate(self.ordered.items()):
            yield to_dict(Example(to_expression(node), None, f"{prefix}{number}", "test", value_class=name))


def relative_gap(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the gap between complex values, relative to the larger one; NaN where either is undefined."""
    with np.errstate(all="ignore"):
        gap = np.abs(left - right) / np.maximum(np.abs(left), np.abs(right))
    gap[left == right] = 0.0
    return gap


def is_defined(node: Node) -> bool:
    """Return whether the expression has a value at every point."""
    return compare(node.value, node.value, sorted(node.variables)).points == POINTS


def verdict_on(left: Node, right: Node) -> str:
    """Return the verdict on left = right."""
    return compare(left.value, right.value, sorted({*left.variables, *right.variables})).verdict
