"""Values of subtrees: in complex128 at all points at once, and in many digits at one point on demand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from dgl_treestack.truth.exact import BITS, BUDGET, INTERVALS, MIDPOINTS, PRECISIONS, Unresolved, apply
from dgl_treestack.truth.functions import CONSTANTS, TRUSTED, drop_noise, fraction_of
from dgl_treestack.truth.functions import apply as apply_in_complex128
from dgl_treestack.truth.points import FIXED, Points

COSTS = dict(zip(PRECISIONS, (1, 2, 10), strict=True))  # of an operation, in operations of the first precision
UNRESOLVED = "unresolved"  # the digits do not suffice to say which value, or whether there is one


class Value:
    """The values of one subtree at every point; a subtree refers to the values of its children.

    name, text: of the root; text is None for an operator. children: the values of the root's arguments. points: P points, the
    same for all values that are compared.

    number: (P,) complex128, NaN where undefined. doubt: (P,) bool, where complex128 cannot be trusted.
    constant: whether no variable occurs. exact: point -> value in 80 digits or None where undefined, filled on demand; a
    constant has point 0 only.
    """

    __slots__ = ("children", "constant", "doubt", "exact", "name", "number", "text")

    def __init__(self, name: str, text: str | None, children: tuple["Value", ...] = (), points: Points = FIXED):
        self.name, self.text, self.children = name, text, children
        self.constant: bool = name != "Symbol" and all(child.constant for child in children)
        self.exact: dict[int, Any] = {}
        self.number: np.ndarray
        self.doubt: np.ndarray
        if text is None:
            self.number, self.doubt = apply_in_complex128(name, [c.number for c in children], [c.doubt for c in children])
        elif name == "Symbol":
            self.number = points.of(text)
            self.exact.update(enumerate(points.balls.get(text, ())))
            self.doubt = np.full(points.count, bool(self.exact))
        else:
            number = CONSTANTS[name] if name in CONSTANTS else float(fraction_of(name, text))
            self.number, self.doubt = drop_noise(np.full(points.count, number, complex), np.zeros(points.count, bool))
        if self.constant and self.doubt[0]:  # one exact evaluation pays: cos(pi) and 1 - 1 are frequent
            value = ExactEvaluation(BUDGET).value(self, 0)
            self.number = np.full(points.count, np.nan if value is None else complex(value), complex)
            size = abs(self.number[0])
            self.doubt = np.full(points.count, bool(size > TRUSTED or 0 < size < 1 / TRUSTED))


def children_first(root: Value) -> list[Value]:
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


@dataclass(eq=False)
class ExactEvaluation:
    """Evaluation of single points in 80 digits, each distinct subtree once, within a budget of operations.

    The digits are those of midpoints: results that are only rounding noise become zero.
    """

    budget: int
    _order: Callable[[Value], list[Value]] = field(default_factory=lambda: cache(children_first), init=False, repr=False)

    def value(self, root: Value, point: int) -> Any:
        """Return the value of a subtree at a point, None where it is undefined or beyond the budget."""
        root_point = 0 if root.constant else point
        if root_point in root.exact:
            return root.exact[root_point]
        with ctx.workprec(BITS):
            for value in self._order(root):
                at = 0 if value.constant else point
                if at in value.exact:
                    continue
                if self.budget <= 0:
                    return None
                self.budget -= 1
                if value.text is None:
                    arguments = [child.exact[0 if child.constant else point] for child in value.children]
                    value.exact[at] = None if None in arguments else apply(value.name, arguments, MIDPOINTS)
                else:
                    number = _leaf(value, point)
                    value.exact[at] = number if value.name in ("Symbol", "Pi", "Exp1") else MIDPOINTS.reduced(number)
        return root.exact[root_point]


@dataclass(eq=False)
class Balls:
    """Evaluation of single points by balls, each distinct subtree once, within a budget of operations.

    A ball is an `acb`, None where the value is undefined, or UNRESOLVED.
    """

    budget: int
    _order: Callable[[Value], list[Value]] = field(default_factory=lambda: cache(children_first), init=False, repr=False)
    _values: dict[tuple[int, int], dict[Value, Any]] = field(default_factory=dict, init=False, repr=False)

    def value(self, root: Value, point: int, bits: int) -> Any:
        """Return the ball of a subtree at a point; UNRESOLVED beyond the budget."""
        return self._evaluated(root, self._values.setdefault((point, bits), {}), point, bits)

    def at(self, root: Value, variables: Mapping[str, Any], bits: int) -> Any:
        """As `value`, at other values of the variables."""
        symbols = [value for value in self._order(root) if value.name == "Symbol"]
        return self._evaluated(root, {symbol: variables[symbol.text or ""] for symbol in symbols}, 0, bits)

    def _evaluated(self, root: Value, at_point: dict[Value, Any], point: int, bits: int) -> Any:
        """Return the ball of a subtree, given those at the point that are already there, to which it adds."""
        constant, noise = self._values.setdefault((-1, bits), {}), INTERVALS[bits]
        with ctx.workprec(bits):
            for value in self._order(root):
                balls = constant if value.constant else at_point
                if value in balls:
                    continue
                if self.budget <= 0:
                    return UNRESOLVED
                self.budget -= COSTS[bits]
                arguments = [(constant if child.constant else at_point)[child] for child in value.children]
                try:
                    if value.text is not None:
                        balls[value] = noise.reduced(_leaf(value, point))
                    elif None in arguments or UNRESOLVED in arguments:
                        balls[value] = None if None in arguments else UNRESOLVED
                    else:
                        balls[value] = apply(value.name, arguments, noise)
                except Unresolved:
                    balls[value] = UNRESOLVED
        return (constant if root.constant else at_point)[root]


def _leaf(leaf: Value, point: int) -> Any:
    """Return the ball of a leaf at a point in the current precision, None for a leaf without value."""
    if leaf.name == "Symbol":
        number = leaf.exact.get(point)
        return acb(complex(leaf.number[point])) if number is None else number
    if leaf.name in ("Pi", "Exp1"):
        return acb.pi() if leaf.name == "Pi" else acb(arb.const_e())
    if leaf.name in ("NaN", "Infinity"):
        return None
    fraction = fraction_of(leaf.name, leaf.text or "")
    return acb(fraction.numerator) / fraction.denominator
