"""Values of subtrees in complex128 at all points at once; a value that cannot be trusted is marked as doubtful."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH
from dgl_treestack.truth.exact import BRANCHES, BUDGET, LARGEST, RECIPROCAL_ARGUMENT, SATURATING, Exact, fraction_of, parts_of
from dgl_treestack.truth.points import FIXED, Points

TRUSTED = 1e6  # complex128 is trusted between 1/TRUSTED and TRUSTED
_SATURATED = 6.0  # beyond this, saturating functions are doubtful
NEVER_ZERO = ("exp", "sec", "csc", "sech", "csch")
CONSTANTS = {"Pi": np.pi, "Exp1": np.e, "NaN": np.nan, "Infinity": np.nan}


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


def evaluate_sides(equation: Expression, points: Points = FIXED) -> list[Value]:
    """Return the values of the two sides of an equation. Raises ExpressionError as `evaluate_nodes` does."""
    values = evaluate_nodes(equation, points)
    return [values[side] for side in equation.children(0)]


def evaluate_nodes(equation: Expression, points: Points = FIXED) -> dict[int, Value]:
    """Return the values of the nodes of an equation below its root, the last node first; equal subtrees are evaluated once.

    Raises ExpressionError for what is no equation, or has no value.
    """
    problem = ""
    if equation.names[0] != "Equality":
        problem = f"Only an equation holds or does not; the root here is {equation.names[0]!r}. Put '=' between two sides."
    elif "Equality" in equation.names[1:]:
        problem = "An equation inside an equation has no value. Judge them one by one."
    elif "Blank" in equation.names:
        problem = f"Node {equation.names.index('Blank')} is a blank `_`, which has no value. Fill it in first."
    if problem:
        raise ExpressionError(problem)
    distinct: dict[tuple, Value] = {}
    values: dict[int, Value] = {}
    for i in range(equation.size - 1, 0, -1):
        children = tuple(values[child] for child in equation.children(i))
        key = (equation.names[i], equation.texts[i], *map(id, children))
        if key not in distinct:
            distinct[key] = Value(equation.names[i], equation.texts[i], children, points)
        values[i] = distinct[key]
    return values


def apply(name: str, arguments: Sequence[np.ndarray], doubts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of an operator at every point, and where it is doubtful, from the values and doubts of its children.

    Raises ExpressionError for an operator without numeric value.
    """
    doubt = doubts[0] | doubts[1] if len(doubts) == 2 else doubts[0].copy()
    function = MATH[name].value
    if function is None:
        raise ExpressionError(f"The operator {name!r} has no numeric value.")
    x = arguments[0]
    with np.errstate(all="ignore"):  # NumPy warns of values that are marked as doubtful here
        number = function(*arguments)
        if name == "Pow" and (zero := x == 0).any():
            exponent = arguments[1]  # our convention: `0**0` is 1, `0**z` is 0 for Re z > 0, otherwise undefined
            powers_of_zero = np.where(exponent == 0, 1.0, np.where(exponent.real > 0, 0.0, np.nan))
            number[zero] = powers_of_zero[zero]
        if name in NEVER_ZERO:
            doubt |= number == 0  # underflow; (1/z)**11013 once passed for zero
        if name == "Pow":
            doubt |= (number == 0) & (x != 0)
        elif name == "Add":
            a, b = np.abs(x), np.abs(arguments[1])
            large = np.maximum(a, b)
            doubt |= (np.abs(number) < large / TRUSTED) | ((np.minimum(a, b) < large / TRUSTED) & (a != 0) & (b != 0))
        elif (inverse := RECIPROCAL_ARGUMENT.get(name, name)) in BRANCHES:
            axis, low, high = BRANCHES[inverse]
            along, off = parts_of(x if name == inverse else 1 / x, axis)
            distance, scale = np.abs(off), 1 + np.abs(along)  # from the axis
            on_cut = (distance <= 1e-9 * scale) & ~((along > low) & (along < high))
            near_ends = (np.abs(along - low) < 1e-4) | (np.abs(along - high) < 1e-4)  # at these are branch points
            doubt |= on_cut | ((distance <= 1e-4 * scale) & near_ends)
        elif name in SATURATING:
            doubt |= np.abs(getattr(x, SATURATING[name])) > _SATURATED
        elif name == "log":
            doubt |= (np.abs(arguments[1] - 1) < 1e-4) | (np.abs(x - 1) < 1e-4)
        if name in RECIPROCAL_ARGUMENT:  # NumPy's arctan(1/0) is pi/2
            undefined = np.isnan(x) | (x == 0)
        else:  # NumPy's nan**0 is 1
            undefined = np.isnan(x if len(arguments) == 1 else x + arguments[1])
        number[undefined] = np.nan
        return drop_noise(number, doubt)


def drop_noise(number: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop rounding noise from real and imaginary parts; mark out-of-range values undefined and untrusted ones doubtful."""
    number = np.ascontiguousarray(number)
    with np.errstate(all="ignore"):
        size = np.abs(number)
        parts = number.view(float).reshape(-1, 2)
        parts[np.abs(parts) <= 1e-13 * size[:, None]] = 0.0
        doubt |= ~(size <= TRUSTED) | ((size < 1 / TRUSTED) & (size != 0))
        outside = ~(size <= LARGEST)
    if outside.any():
        number[outside] = np.nan
    return number, doubt
