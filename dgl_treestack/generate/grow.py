"""Growing equations that hold, from an instance of an axiom to an exact depth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dgl_treestack.generate.axioms import Axiom
from dgl_treestack.generate.nodes import Node, Pool, find
from dgl_treestack.generate.rewrite import RuleIndex, expand, instantiate, rewrite, rules_of
from dgl_treestack.operators import MATH

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
Sides = tuple[Node, Node]


@dataclass(frozen=True)
class Habits:
    """How equations are grown; all are probabilities or weights.

    variables: weights of 1, 2, 3 variables in an equation.
    axiom: start from an axiom rather than from t = t. numeric: an axiom is one without variables.
    steps: weights of rewriting a node, doing the same to both sides, adding or multiplying an axiom instance.
    expansion: a rewrite wraps its node into something longer.
    constant: a random leaf is a constant. inner: a random expression is an operator rather than a leaf.
    decoy: a random unary function stands over an inverse function that it does not undo.
    stop: stop at the target depth rather than go on rewriting there.
    """

    variables: tuple[float, ...] = (0.5, 0.35, 0.15)
    axiom: float = 0.85
    numeric: float = 0.1
    steps: tuple[float, ...] = (0.72, 0.14, 0.14)
    expansion: float = 0.06
    constant: float = 0.25
    inner: float = 0.35
    decoy: float = 0.3
    stop: float = 0.4


@dataclass(frozen=True)
class Start:
    """The root of a derivation: an instance of an axiom (or x = x), named by the axiom."""

    axiom: str
    left: Node
    right: Node

    @property
    def depth(self) -> int:
        return 1 + max(self.left.depth, self.right.depth)


class Grower:
    """Grows equations in one pool from one random stream."""

    def __init__(self, axioms: Sequence[Axiom], rng: np.random.Generator, habits: Habits | None = None):
        self.rng, self.habits, self.pool = rng, habits or Habits(), Pool()
        self.rules = RuleIndex(rules_of(axioms))
        patterns = Pool()
        self._containing: dict[tuple[str, bool], list[tuple[str, Node, Node]]] = {}
        for axiom in axioms:
            numeric = "Symbol" not in axiom.equation.names
            left, right = patterns.tree(axiom.equation).children
            for name in FUNCTIONS:
                if name in axiom.equation.names:
                    self._containing.setdefault((name, numeric), []).append((axiom.name, left, right))
        self.variables: tuple[str, ...] = VARIABLES[:1]

    # Pieces

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, options: Sequence[Option]) -> Option:
        return options[int(self.rng.integers(len(options)))]

    def leaf(self) -> Node:
        """A variable of the equation or a constant."""
        if self.chance(self.habits.constant):
            return self.pool.leaf(*self.pick(CONSTANTS))
        return self.pool.leaf("Symbol", self.pick(self.variables))

    def expression(self, depth: int) -> Node:
        """A random expression of at most the given depth."""
        return self.function(depth) if depth > 0 and self.chance(self.habits.inner) else self.leaf()

    def function(self, depth: int) -> Node:
        """A random operator over random expressions."""
        name = self.pick(FUNCTIONS)
        if name not in UNARY:
            return self.pool.node(name, self.expression(depth - 1), self.expression(depth - 1))
        if name not in INVERSE and depth > 1 and self.chance(self.habits.decoy):
            decoy = self.pick([inverse for inverse in INVERSE if inverse != "a" + name])
            return self.pool.node(name, self.pool.node(decoy, self.expression(depth - 2)))
        return self.pool.node(name, self.expression(depth - 1))

    def instance(self, depth: int) -> tuple[str, Node, Node]:
        """An axiom, found through a function drawn uniformly, with its variables filled, in either direction."""
        function, numeric = self.pick(FUNCTIONS), self.chance(self.habits.numeric)
        name, left, right = self.pick(self._containing.get((function, numeric)) or self._containing[function, False])
        bindings: dict[str, Node] = {}
        left, right = (instantiate(self.pool, side, bindings, lambda: self.expression(depth)) for side in (left, right))
        return (name, left, right) if self.chance(0.5) else (name, right, left)

    # Derivations

    def start(self) -> Start:
        """A new derivation; also draws which variables it uses."""
        if len(self.pool) > 30_000:
            self.pool = Pool()
        count = 1 + int(self.rng.choice(3, p=self.habits.variables))
        self.variables = tuple(VARIABLES[i] for i in self.rng.permutation(len(VARIABLES))[:count])
        filling = self.pick((0, 0, 1, 2))
        if self.chance(self.habits.axiom):
            return Start(*self.instance(filling))
        side = self.function(1 + filling)
        return Start("same", side, side)

    def grow(self, start: Start, depth: int, steps: int = 60) -> Sides | None:
        """Two sides, equal by derivation, whose equation has exactly the depth and at most 5*depth + 4 nodes, or None."""
        sides = (start.left, start.right)
        for _ in range(steps):
            reached = 1 + max(side.depth for side in sides)
            if reached == depth and sides[0] is not sides[1] and self.chance(self.habits.stop):
                return sides
            grown = self._step(sides, depth)
            if grown and max(s.depth for s in grown) < depth and sum(s.size for s in grown) < 5 * depth + 4:
                sides = grown
        return None

    def _step(self, sides: Sides, depth: int) -> Sides | None:
        kind = int(self.rng.choice(3, p=self.habits.steps))
        if kind == 0:
            return self.rewritten(sides)
        if kind == 1:
            return self._same_to_both(sides)
        _, left, right = self.instance(1 if depth > 4 else 0)
        return self._combined(self.pick(("Add", "Mul")), sides, (left, right))

    def rewritten(self, sides: Sides) -> Sides | None:
        """The sides after one rewrite of a random node of one of them, or None when no rule fits there."""
        which = int(self.rng.integers(2))
        side = sides[which]
        index = int(self.rng.integers(side.size))
        node = find(side, index)
        new = (expand if self.chance(self.habits.expansion) else rewrite)(self.pool, self.rules, node, self.leaf, self.rng)
        if new is None:
            return None
        changed = self.pool.replace(side, index, new)
        return (changed, sides[1]) if which == 0 else (sides[0], changed)

    def _same_to_both(self, sides: Sides) -> Sides:
        name = self.pick(FUNCTIONS)
        if name in UNARY:
            return self.pool.node(name, sides[0]), self.pool.node(name, sides[1])
        operand = self.expression(1)
        return self._combined(name, sides, (operand, operand))

    def _combined(self, name: str, first: Sides, second: Sides) -> Sides:
        """A binary operator over both pairs of sides, in either order."""
        if self.chance(0.5):
            first, second = second, first
        return self.pool.node(name, first[0], second[0]), self.pool.node(name, first[1], second[1])
