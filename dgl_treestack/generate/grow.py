"""Growing equations that hold, from an instance of an axiom to an exact depth, out of random leaves and expressions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate.nodes import Node, Pool, path_to
from dgl_treestack.generate.presets import Option
from dgl_treestack.generate.rewrite import (
    SAME,
    Derivation,
    RuleIndex,
    Step,
    apply_to_both,
    instantiate,
    load_axioms,
    rule_index,
)

UNARY = tuple(operator.name for operator in MATH.operators if operator.arity == 1)
BINARY = ("Add", "Mul", "Pow")
FUNCTIONS = (*UNARY, *BINARY)
INVERSE = tuple(name for name in UNARY if name.startswith("a"))
VARIABLES = ("x", "y", "z", "w", "u")
CONSTANTS = (
    *(("Integer", text) for text in ("0", "1", "2", "3", "4", "10")),
    *(("NegativeOne", "-1"), ("Half", "1/2"), ("Pi", "pi"), ("Rational", "2/5"), ("Float", "0.7")),
)
# An equation of depth d has at most 4d + 6 nodes: with 5d + 4, trees are a tenth larger and no faster to make.
SIZE_PER_DEPTH, SIZE_OFFSET = 4, 6
_FAR = 4  # if more levels than this are missing, steps are drawn by Habits.far_steps
_AHEAD = 1  # levels by which the size may be ahead of the depth
_POOL = 30_000  # nodes that are kept with their values


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
def _axioms_by_function() -> dict[tuple[str, bool], list[tuple[str, Node]]]:
    """Map (function, whether there are no variables) to the axioms with the function, by name and pattern."""
    pool, axioms = Pool(), dict[tuple[str, bool], list[tuple[str, Node]]]()
    for axiom in load_axioms():
        for name in FUNCTIONS:
            if name in axiom.equation.names:
                entry = axiom.name, pool.tree(axiom.equation)
                axioms.setdefault((name, "Symbol" not in axiom.equation.names), []).append(entry)
    return axioms


@dataclass(eq=False)
class Grower:
    """Grows equations in one pool from one random stream. variables: those of the current equation."""

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

    def instance(self, depth: int) -> tuple[str, Node]:
        """Draw a function, then an axiom with it, filled with expressions of at most the depth: its name and the equation."""
        axioms, function = _axioms_by_function(), self.pick(FUNCTIONS)
        numeric = self.rng.random() < self.habits.numeric
        name, pattern = self.pick(axioms.get((function, numeric)) or axioms[function, False])
        equation = instantiate(self.pool, pattern, {}, lambda: self.expression(depth))
        left, right = equation.children
        return name, equation if self.rng.random() < 0.5 else self.pool.node("Equality", right, left)

    def start(self) -> Derivation:
        """Draw the root of a derivation, an instance of an axiom or t = t, and the variables of the equation."""
        if len(self.pool.nodes) > _POOL:
            self.pool = Pool()
        count = self.weighted(dict(enumerate(self.habits.variables, start=1)))
        self.variables = tuple(sorted(VARIABLES, key=lambda _: self.rng.random())[:count])
        filling_depth = self.pick((0, 0, 1, 2))
        if self.rng.random() < self.habits.axiom:
            name, root = self.instance(filling_depth)
        else:
            side = self.function(1 + filling_depth)
            name, root = SAME, self.pool.node("Equality", side, side)
        return Derivation(root, (("start", name, root),))

    def grow(self, start: Derivation, depth: int) -> Derivation | None:
        """Extend `start` to an equation of exactly this depth with different sides. Returns None after too many steps."""
        derivation = start
        for _ in range(max(60, 4 * depth)):
            if _is_finished(derivation, depth) and self.rng.random() < self.habits.stop:
                return derivation
            derivation = _fitting(self._step(derivation, depth), depth) or derivation
        return None

    def further(self, derivation: Derivation, depth: int, steps: int) -> Derivation | None:
        """Extend a derivation by at least `steps` rewrites to exactly this depth and different sides, or return None."""
        for _ in range(20):
            changed = _fitting(self.rewritten(derivation, depth), depth)
            if changed is None:
                continue
            derivation, steps = changed, steps - 1
            if steps <= 0 and _is_finished(derivation, depth):
                return derivation
        return None

    def _step(self, derivation: Derivation, depth: int) -> Derivation | None:
        """Draw a step: a rewrite, an operation on both sides, or the sum or product with an instance; None beyond the depth."""
        kind, levels_left = self.rng.random(), depth - derivation.root.depth
        # rewriting alone rarely reaches the depth from a shallow equation
        rewrite_share, both_share, _ = self.habits.far_steps if levels_left > _FAR else self.habits.steps
        if kind < rewrite_share:
            return self.rewritten(derivation, depth)
        operands: tuple[Node, ...] = ()
        slot = 0
        if kind < rewrite_share + both_share:
            name = self.pick(FUNCTIONS)
            step: Step = ("both", name)
            if name not in UNARY:
                operand, slot = self.expression(1), self.below(2)
                operands, step = (operand, operand), (*step, operand, slot)
        else:
            axiom, instance = self.instance(1 if depth > 4 else 0)
            name, slot = self.pick(("Add", "Mul")), self.below(2)
            operands, step = instance.children, ("combine", name, axiom, instance, slot)
        if levels_left <= 0:
            return None
        return Derivation(apply_to_both(self.pool, name, derivation.root, operands, slot), (*derivation.steps, step))

    def rewritten(self, derivation: Derivation, depth: int | None = None, rules: RuleIndex | None = None) -> Derivation | None:
        """Rewrite a random node of a random side. Returns None if no rule fits there or the result would exceed the depth.

        rules: used in place of the axioms, and without expansions.
        """
        root, side = derivation.root, self.below(2)
        index_in_side = self.below(root.children[side].size)
        index = 1 + index_in_side + side * root.children[0].size
        path, rule_set = path_to(root, index), rules or rule_index()
        node = path[-1][0]
        if rules is None and self.rng.random() < self.habits.expansion:
            rule = rule_set.expansions[int(self.rng.integers(len(rule_set.expansions)))]
            bound = {rule.source.label: node}
        elif matches := rule_set.matches(node):
            rule, bound = matches[int(self.rng.integers(len(matches)))]
        else:
            return None
        fills = tuple([self.leaf() for _ in rule.new])
        bindings = {**bound}  # a copy, as the matches of a node are cached
        bindings.update(zip(rule.new, fills, strict=True))
        # three quarters are too deep: checked before the tree is built, which made generation a tenth faster
        if depth is not None and len(path) - 1 + rule.depth_of(bindings) > depth:
            return None
        new = self.pool.replace(root, index, instantiate(self.pool, rule.target, bindings, self.leaf))
        step: Step = ("rewrite", rule.name, side, index_in_side)
        return Derivation(new, (*derivation.steps, (*step, fills) if fills else step))


def _is_finished(derivation: Derivation, depth: int) -> bool:
    """Return whether an equation has exactly this depth and different sides."""
    left, right = derivation.root.children
    return derivation.root.depth == depth and left is not right


def _fitting(derivation: Derivation | None, depth: int) -> Derivation | None:
    """Return the derivation, or None if its equation is too deep, or too large for its depth."""
    if derivation is None or derivation.root.depth > depth:
        return None
    size_depth = min(depth, derivation.root.depth + _AHEAD)
    return derivation if derivation.root.size <= SIZE_PER_DEPTH * size_depth + SIZE_OFFSET else None
