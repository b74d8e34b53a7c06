"""Which of many fillers are right for a blank.

All fillers are pushed through the equation at once: only the operators between the blank and the root are applied, to arrays
of every filler's values at every point. A filler whose sides then differ clearly at three quarters of the points, in
complex128, is wrong. The few that are left are judged one by one, so a filler is called right by `truth` alone.

In an equation too ill-conditioned for complex128 the truth itself can get lost; then its class is missing among the right ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dgl_treestack.expression import Equation
from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate.completion.value_classes import CLEARLY, relative_gap, verdict_on
from dgl_treestack.generate.nodes import Node, Pool
from dgl_treestack.truth import POINTS
from dgl_treestack.truth.comparison import REFUTED_SHARE

_NOISE = 1e-9  # two values below may both stand for zero


@dataclass(frozen=True)
class Fit:
    """Names of fillers. right: the equation holds. doubtful: it holds at some points only, or is undefined."""

    right: list[str]
    doubtful: list[str]


class Fillings:
    """Fillers to try in blanks, by name; evaluated once."""

    def __init__(self, pool: Pool, fillers: Mapping[str, Node]):
        self.pool, self.names, self.fillers = pool, list(fillers), list(fillers.values())
        self._numbers = np.array([filler.value.number for filler in self.fillers]).reshape(-1, POINTS)

    def fit(self, equation: Equation, blank: int) -> Fit:
        """What each filler does to the equation."""
        root = self.pool.tree(equation)
        verdicts = {}
        for number in self._not_clearly_wrong(root, blank).tolist():
            filled = self.pool.replace(root, blank, self.fillers[number])
            verdicts[self.names[number]] = verdict_on(*filled.children)
        right = [name for name, verdict in verdicts.items() if verdict == "holds"]
        return Fit(right, [name for name, verdict in verdicts.items() if verdict in ("conditional", "undefined")])

    def _not_clearly_wrong(self, root: Node, blank: int) -> np.ndarray:
        above = _path(root, blank)
        numbers = self._numbers
        with np.errstate(all="ignore"):  # overflow and poles end as NaN or infinity, which are not clearly different
            for node, slot in reversed(above[1:]):
                arguments = [numbers if i == slot else child.value.number for i, child in enumerate(node.children)]
                numbers = _value(node.name, *arguments)
            other = root.children[1 - above[0][1]].value.number
            differ = (relative_gap(numbers, other) > CLEARLY) & (np.maximum(np.abs(numbers), np.abs(other)) > _NOISE)
        return np.flatnonzero(differ.sum(axis=1) < REFUTED_SHARE * POINTS)


def _value(name: str, *arguments: np.ndarray) -> np.ndarray:
    function = MATH[name].value
    assert function is not None  # every operator below the root has one
    return function(*arguments)


def _path(root: Node, index: int) -> list[tuple[Node, int]]:
    """The nodes from the root to above the node with a pre-order index, each with the slot that leads on."""
    path, node = [], root
    while index:
        index -= 1
        slot = 0
        while index >= node.children[slot].size:
            index -= node.children[slot].size
            slot += 1
        path.append((node, slot))
        node = node.children[slot]
    return path
