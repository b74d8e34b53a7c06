"""Random leaves, expressions and instances of axioms, from which equations are grown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import numpy as np

from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.nodes import Node, Pool
from dgl_treestack.generate.rewrite import instantiate

UNARY = tuple(operator.name for operator in MATH.operators if operator.arity == 1)
FUNCTIONS = (*UNARY, "Add", "Mul", "Pow")
INVERSE = tuple(name for name in UNARY if name.startswith("a"))
VARIABLES = ("x", "y", "z", "w", "u")
CONSTANTS = (
    ("Integer", "0"),
    ("Integer", "1"),
    ("Integer", "2"),
    ("Integer", "3"),
    ("Integer", "4"),
    ("Integer", "10"),
    ("NegativeOne", "-1"),
    ("Half", "1/2"),
    ("Pi", "pi"),
    ("Rational", "2/5"),
    ("Float", "0.7"),
)

Option = TypeVar("Option")


@dataclass(frozen=True)
class Habits:
    """How equations are grown; all are probabilities or weights.

    variables: weights of 1, 2, 3 variables in an equation.
    axiom: start from an axiom rather than from t = t. numeric: an axiom is one without variables.
    steps: of rewriting a node, of applying an operation to both sides, of adding or multiplying an axiom instance;
    far_steps: the same while the equation is much too shallow.
    expansion: a rewrite replaces its node by a larger equal expression.
    constant: a random leaf is a constant. inner: a random expression is an operator rather than a leaf.
    decoy: the argument of a random unary function is an inverse function, but not its inverse.
    stop: stop at the target depth rather than continue to rewrite there.
    """

    variables: tuple[float, ...] = (0.5, 0.35, 0.15)
    axiom: float = 0.85
    numeric: float = 0.1
    steps: tuple[float, ...] = (0.72, 0.14, 0.14)
    far_steps: tuple[float, ...] = (0.5, 0.35, 0.15)
    expansion: float = 0.06
    constant: float = 0.25
    inner: float = 0.35
    decoy: float = 0.3
    stop: float = 0.4


@cache
def _axioms_by_function() -> dict[tuple[str, bool], list[tuple[str, Node, Node]]]:
    """Map (function, whether there are no variables) to the axioms with the function: name, left and right pattern."""
    pool, axioms = Pool(), dict[tuple[str, bool], list[tuple[str, Node, Node]]]()
    for axiom in load_axioms():
        left, right = pool.tree(axiom.equation).children
        for name in FUNCTIONS:
            if name in axiom.equation.names:
                axioms.setdefault((name, "Symbol" not in axiom.equation.names), []).append((axiom.name, left, right))
    return axioms


@dataclass(eq=False)
class Pieces:
    """Draws parts of equations into one pool from one random stream. variables: those of the current equation."""

    rng: np.random.Generator
    habits: Habits = field(default_factory=Habits)
    pool: Pool = field(default_factory=Pool, init=False)
    variables: tuple[str, ...] = field(default=VARIABLES[:1], init=False)

    def below(self, end: int) -> int:
        """Draw a whole number from 0 to end - 1; many times faster than NumPy's `integers`."""
        return int(self.rng.random() * end)

    def pick(self, options: Sequence[Option]) -> Option:
        """Draw one of the options, all equally likely."""
        return options[self.below(len(options))]

    def weighted(self, weights: Mapping[Option, float]) -> Option:
        """Draw one of the keys by its weight."""
        remainder = self.rng.random() * sum(weights.values())
        for option, weight in weights.items():
            remainder -= weight
            if remainder < 0:
                return option
        return option

    def leaf(self) -> Node:
        """Draw a variable of the equation or a constant."""
        if self.rng.random() < self.habits.constant:
            return self.pool.leaf(*self.pick(CONSTANTS))
        return self.pool.leaf("Symbol", self.pick(self.variables))

    def expression(self, depth: int) -> Node:
        """Draw an expression of at most the given depth."""
        return self.function(depth) if depth > 0 and self.rng.random() < self.habits.inner else self.leaf()

    def function(self, depth: int) -> Node:
        """Draw an operator over random expressions, of at most the given depth in total."""
        name = self.pick(FUNCTIONS)
        if name not in UNARY:
            return self.pool.node(name, self.expression(depth - 1), self.expression(depth - 1))
        if name not in INVERSE and depth > 1 and self.rng.random() < self.habits.decoy:
            decoy = self.pick([inverse for inverse in INVERSE if inverse != "a" + name])
            return self.pool.node(name, self.pool.node(decoy, self.expression(depth - 2)))
        return self.pool.node(name, self.expression(depth - 1))

    def instance(self, depth: int) -> tuple[str, Node, Node]:
        """Draw a function, then an axiom in which it occurs, and fill its variables with expressions of at most the depth.

        Returns the name of the axiom and its sides, in either order.
        """
        axioms, function = _axioms_by_function(), self.pick(FUNCTIONS)
        numeric = self.rng.random() < self.habits.numeric
        name, left, right = self.pick(axioms.get((function, numeric)) or axioms[function, False])
        bindings: dict[str, Node] = {}
        left, right = (instantiate(self.pool, side, bindings, lambda: self.expression(depth)) for side in (left, right))
        return (name, left, right) if self.rng.random() < 0.5 else (name, right, left)
