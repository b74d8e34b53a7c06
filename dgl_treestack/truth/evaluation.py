"""Values of subtrees: in complex128 at all points at once, and in many digits at one point on demand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from dgl_treestack.truth.functions import (
    BITS,
    BUDGET,
    CONSTANTS,
    INTERVALS,
    MIDPOINTS,
    PRECISIONS,
    TRUSTED,
    Intervals,
    Midpoints,
    Unresolved,
    apply,
    apply_exactly,
    drop_noise,
    fraction_of,
)
from dgl_treestack.truth.points import FIXED, Points

COSTS = dict(zip((0, *PRECISIONS), (1, 1, 2, 10), strict=True))  # of an operation, in operations of the first precision
# FLINT's radius of a complex atan grows by a third in every step, so chains of thousands stay unresolved.
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
            self.number, self.doubt = apply(name, [c.number for c in children], [c.doubt for c in children])
        elif name == "Symbol":
            self.number = points.of(text)
            self.exact.update(enumerate(points.balls.get(text, ())))
            self.doubt = np.full(points.count, bool(self.exact))
        else:
            number = CONSTANTS[name] if name in CONSTANTS else float(fraction_of(name, text))
            self.number, self.doubt = drop_noise(np.full(points.count, number, complex), np.zeros(points.count, bool))
        if self.constant and self.doubt[0]:  # one exact evaluation pays: cos(pi) and 1 - 1 are frequent
            value = Exact(BUDGET).value(self, 0)
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
class Exact:
    """Evaluation of single points in many digits, each distinct subtree once, within a budget of operations.

    Of no bits, a value is a midpoint in 80 digits, whose noise is zero; it is kept by the `Value`. Of some of `PRECISIONS`, it
    is a ball, or UNRESOLVED, and kept here.
    """

    budget: int
    _order: Callable[[Value], list[Value]] = field(default_factory=lambda: cache(children_first), init=False, repr=False)
    _balls: dict[tuple[int, int], dict[Value, Any]] = field(default_factory=dict, init=False, repr=False)

    def value(self, root: Value, point: int, bits: int = 0, variables: Mapping[str, Any] | None = None) -> Any:
        """Return the value of a subtree at a point, None where it is undefined.

        Beyond the budget, a midpoint is None and a ball UNRESOLVED. variables: balls in place of the variables at the point.
        """
        if not bits and (0 if root.constant else point) in root.exact:
            return root.exact[0 if root.constant else point]
        noise, order = (INTERVALS[bits] if bits else MIDPOINTS), self._order(root)
        constant, varying = (self._balls.setdefault((at, bits), {}) for at in (-1, point))
        if variables is not None:
            varying = {value: variables[value.text or ""] for value in order if value.name == "Symbol"}
        store: dict[Any, Any]
        key: Any
        with ctx.workprec(bits or BITS):
            for value in order:  # the root is the last
                if bits:
                    store, key = (constant if value.constant else varying), value
                else:
                    store, key = value.exact, 0 if value.constant else point
                if key in store:
                    continue
                if self.budget <= 0:
                    return UNRESOLVED if bits else None
                self.budget -= COSTS[bits]
                if bits:
                    arguments = [(constant if child.constant else varying)[child] for child in value.children]
                else:
                    arguments = [child.exact[0 if child.constant else point] for child in value.children]
                try:
                    if value.text is not None:
                        store[key] = _leaf(value, point, noise)
                    elif None in arguments:
                        store[key] = None
                    elif bits and UNRESOLVED in arguments:
                        store[key] = UNRESOLVED
                    else:
                        store[key] = apply_exactly(value.name, arguments, noise)
                except Unresolved:
                    store[key] = UNRESOLVED
        return store[key]


def _leaf(leaf: Value, point: int, noise: Midpoints | Intervals) -> Any:
    """Return the value of a leaf at a point in the current precision, None for a leaf without value."""
    if leaf.name == "Symbol":
        number = leaf.exact.get(point)
        return noise.reduced(acb(complex(leaf.number[point])) if number is None else number)
    if leaf.name in ("Pi", "Exp1"):
        return acb.pi() if leaf.name == "Pi" else acb(arb.const_e())
    if leaf.name in ("NaN", "Infinity"):
        return None
    fraction = fraction_of(leaf.name, leaf.text or "")
    return noise.reduced(acb(fraction.numerator) / fraction.denominator)
