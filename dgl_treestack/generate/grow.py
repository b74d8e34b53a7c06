"""Growing equations that hold, from an instance of an axiom to an exact depth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.derivation import SAME, Derivation, Sides, combined, depth_of, size_of
from dgl_treestack.generate.nodes import Node, Pool, find
from dgl_treestack.generate.rewrite import Bindings, Rule, RuleIndex, draw_expansion, draw_match, instantiate, rules_of
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
SIZE_PER_DEPTH, SIZE_OFFSET = 4, 6  # an equation of depth d has at most 4d + 6 nodes
_FAR = 4  # levels
_AHEAD = 1  # levels; how far the size may run ahead of the depth
_POOL = 30_000  # nodes that are kept for the values they carry


@dataclass(frozen=True)
class Habits:
    """How equations are grown; all are probabilities or weights.

    variables: weights of 1, 2, 3 variables in an equation.
    axiom: start from an axiom rather than from t = t. numeric: an axiom is one without variables.
    steps: chances of rewriting a node, of doing the same to both sides, of adding or multiplying an axiom instance;
    far_steps: the same while the equation is much too shallow.
    expansion: a rewrite wraps its node into something longer.
    constant: a random leaf is a constant. inner: a random expression is an operator rather than a leaf.
    decoy: a random unary function stands over an inverse function that it does not undo.
    stop: stop at the target depth rather than go on rewriting there.
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
def _rules() -> tuple[Rule, ...]:
    return rules_of(load_axioms())


@cache
def _containing() -> dict[tuple[str, bool], list[tuple[str, Node, Node]]]:
    """The axioms by function that occurs in them and by whether they are without variables."""
    patterns, found = Pool(), dict[tuple[str, bool], list[tuple[str, Node, Node]]]()
    for axiom in load_axioms():
        left, right = patterns.tree(axiom.equation).children
        for name in FUNCTIONS:
            if name in axiom.equation.names:
                found.setdefault((name, "Symbol" not in axiom.equation.names), []).append((axiom.name, left, right))
    return found


class Grower:
    """Grows equations in one pool from one random stream."""

    def __init__(self, rng: np.random.Generator, habits: Habits | None = None):
        self.rng, self.habits, self.pool = rng, habits or Habits(), Pool()
        self.rules, self.axioms = RuleIndex(_rules()), _containing()
        self.variables: tuple[str, ...] = VARIABLES[:1]

    # Pieces

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, options: Sequence[Option]) -> Option:
        return options[self.below(len(options))]

    def below(self, end: int) -> int:
        """A whole number from 0 to end - 1; many times faster than asking NumPy for one."""
        return int(self.rng.random() * end)

    def weighted(self, weights: Mapping[Option, float]) -> Option:
        """One of the keys, by weight."""
        place = self.rng.random() * sum(weights.values())
        for option, weight in weights.items():
            place -= weight
            if place < 0:
                return option
        return option

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
        name, left, right = self.pick(self.axioms.get((function, numeric)) or self.axioms[function, False])
        bindings: dict[str, Node] = {}
        left, right = (instantiate(self.pool, side, bindings, lambda: self.expression(depth)) for side in (left, right))
        return (name, left, right) if self.chance(0.5) else (name, right, left)

    # Derivations

    def start(self) -> Derivation:
        """The root of a derivation, an instance of an axiom or t = t; also draws which variables it uses."""
        if len(self.pool) > _POOL:
            self.pool = Pool()
        count = self.weighted(dict(enumerate(self.habits.variables, start=1)))
        self.variables = tuple(sorted(VARIABLES, key=lambda _: self.rng.random())[:count])
        filling = self.pick((0, 0, 1, 2))
        if self.chance(self.habits.axiom):
            name, left, right = self.instance(filling)
        else:
            name, left = SAME, self.function(1 + filling)
            right = left
        return Derivation(left, right, (("start", name, (left, right)),))

    def grow(self, start: Derivation, depth: int) -> Derivation | None:
        """A derivation from `start` to an equation of exactly the depth, its sides different, or None."""
        grown = start
        for _ in range(max(60, 4 * depth)):
            if depth_of(grown.sides) == depth and grown.left is not grown.right and self.chance(self.habits.stop):
                return grown
            grown = self._fitting(self._step(grown, depth), depth) or grown
        return None

    def further(self, derivation: Derivation, depth: int, steps: int, tries: int = 20) -> Derivation | None:
        """At least so many true rewrites more, to an equation of exactly the depth, or None."""
        for _ in range(tries):
            changed = self._fitting(self.rewritten(derivation), depth)
            if changed is None:
                continue
            derivation, steps = changed, steps - 1
            if steps <= 0 and depth_of(derivation.sides) == depth and derivation.left is not derivation.right:
                return derivation
        return None

    def _fitting(self, grown: Derivation | None, depth: int) -> Derivation | None:
        """The derivation unless its equation is too deep, or so large that a deep one would come out too large."""
        if grown is None or depth_of(grown.sides) > depth:
            return None
        return grown if size_of(grown.sides) <= self.largest(min(depth, depth_of(grown.sides) + _AHEAD)) else None

    def largest(self, depth: int) -> int:
        """The most nodes that an equation of the depth may have."""
        return SIZE_PER_DEPTH * depth + SIZE_OFFSET

    def _step(self, grown: Derivation, depth: int) -> Derivation | None:
        kind = self.rng.random()
        far = depth - depth_of(grown.sides) > _FAR  # rewriting alone rarely gets a shallow equation there
        rewrite, both, _ = self.habits.far_steps if far else self.habits.steps
        if kind < rewrite:
            return self.rewritten(grown)
        if kind < rewrite + both:
            return self._same_to_both(grown)
        axiom, left, right = self.instance(1 if depth > 4 else 0)
        name, slot = self.pick(("Add", "Mul")), self.below(2)
        step = ("combine", name, axiom, (left, right), slot)
        return grown.then(combined(self.pool, name, grown.sides, (left, right), slot), step)

    def rewritten(self, derivation: Derivation) -> Derivation | None:
        """The derivation after one rewrite of a random node of one side, or None when no rule fits there."""
        which, index, node = self.place(derivation.sides)
        expanding = self.chance(self.habits.expansion)
        found = (draw_expansion if expanding else draw_match)(self.rules, node, self.rng)
        if found is None:
            return None
        rule, bindings = found
        fills: list[Node] = []
        sides = self.replaced(derivation.sides, which, index, rule.target, bindings, fills)
        step = ("rewrite", rule.name, which, index)
        return derivation.then(sides, (*step, tuple(fills)) if fills else step)

    def place(self, sides: Sides) -> tuple[int, int, Node]:
        """A random node of a random side: the side, its position there, the node."""
        which = self.below(2)
        index = self.below(sides[which].size)
        return which, index, find(sides[which], index)

    def replaced(self, sides: Sides, which: int, index: int, target: Node, bindings: Bindings, fills: list[Node]) -> Sides:
        """The sides with a node replaced by an instance of `target`; new variables become leaves, listed in `fills`."""

        def fill() -> Node:
            fills.append(self.leaf())
            return fills[-1]

        new = self.pool.replace(sides[which], index, instantiate(self.pool, target, bindings, fill))
        return (new, sides[1]) if which == 0 else (sides[0], new)

    def _same_to_both(self, grown: Derivation) -> Derivation:
        name = self.pick(FUNCTIONS)
        if name in UNARY:
            return grown.then((self.pool.node(name, grown.left), self.pool.node(name, grown.right)), ("both", name))
        operand, slot = self.expression(1), self.below(2)
        return grown.then(combined(self.pool, name, grown.sides, (operand, operand), slot), ("both", name, operand, slot))
