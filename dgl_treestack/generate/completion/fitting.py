"""Which of many fillers are right for a blank.

All fillers are substituted at once: only the operators between the blank and the root are applied, to arrays of the values of
all fillers at all points. A filler whose sides then differ clearly at three quarters of the points, in complex128, is wrong.
`truth` judges the few remaining fillers one by one, so it alone decides that a filler is right.

In an equation too ill-conditioned for complex128, the truth itself can be rejected; its class is then not among the right ones.
"""

from dataclasses import dataclass

import numpy as np

from dgl_treestack.expression import Equation
from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate.completion.candidates import CLEARLY, relative_gap, verdict_on
from dgl_treestack.generate.nodes import Node, Pool, path_to
from dgl_treestack.truth import POINTS
from dgl_treestack.truth.certificates import REFUTED_SHARE

_NOISE = 1e-9  # two values below this may both be zero


@dataclass(frozen=True)
class Fit:
    """Names of classes. right: the equation holds. doubtful: it holds at some points only, or is undefined."""

    right: list[str]
    doubtful: list[str]


class Fillings:
    """Fillers to try in blanks, evaluated once. classes: filler -> name of its class; only the first of each class is tried."""

    def __init__(self, pool: Pool, classes: dict[Node, str]):
        fillers = {name: node for node, name in reversed(classes.items())}
        self.pool, self.names, self.fillers = pool, list(fillers), list(fillers.values())
        self._numbers = np.array([filler.value.number for filler in self.fillers]).reshape(-1, POINTS)

    def fit(self, equation: Equation, blank: int) -> Fit:
        """Return which classes are right and which are doubtful at node `blank` of an equation."""
        root, numbers = self.pool.tree(equation), self._numbers
        (_, side), *above = path_to(root, blank)[:-1]
        with np.errstate(all="ignore"):  # overflow and poles give NaN or infinity, which do not count as different
            for node, slot in reversed(above):
                operator = MATH[node.name].value
                assert operator is not None  # every operator below the root has a value
                numbers = operator(*(numbers if i == slot else child.value.number for i, child in enumerate(node.children)))
            opposite = root.children[1 - side].value.number
            differ = (relative_gap(numbers, opposite) > CLEARLY) & (np.maximum(np.abs(numbers), np.abs(opposite)) > _NOISE)
        fit = Fit([], [])
        for number in np.flatnonzero(differ.sum(axis=1) < REFUTED_SHARE * POINTS).tolist():
            verdict = verdict_on(*self.pool.replace(root, blank, self.fillers[number]).children)
            if verdict == "holds":
                fit.right.append(self.names[number])
            elif verdict != "refuted":
                fit.doubtful.append(self.names[number])
        return fit
