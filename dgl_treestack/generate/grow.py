"""Growing equations that hold, from an instance of an axiom to an exact depth."""

from functools import cache

import numpy as np

from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.derivation import SAME, Derivation, Sides, combined, depth_of, size_of
from dgl_treestack.generate.nodes import Node, Path, Pool, path_to
from dgl_treestack.generate.pieces import FUNCTIONS, UNARY, VARIABLES, Habits, Pieces
from dgl_treestack.generate.rewrite import Bindings, Rule, RuleIndex, draw_expansion, draw_match, instantiate, rules_of

SIZE_PER_DEPTH, SIZE_OFFSET = 4, 6  # an equation of depth d has at most 4d + 6 nodes
_FAR = 4  # levels
_AHEAD = 1  # levels; how far the size may run ahead of the depth
_POOL = 30_000  # nodes that are kept for the values they carry


@cache
def _rules() -> tuple[Rule, ...]:
    return rules_of(load_axioms())


class Grower(Pieces):
    """Grows equations in one pool from one random stream."""

    def __init__(self, rng: np.random.Generator, habits: Habits | None = None):
        super().__init__(rng, habits)
        self.rules = RuleIndex(_rules())

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
            changed = self._fitting(self.rewritten(derivation, depth), depth)
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
            return self.rewritten(grown, depth)
        has_room = depth_of(grown.sides) < depth
        if kind < rewrite + both:
            return self._same_to_both(grown, has_room)
        axiom, left, right = self.instance(1 if depth > 4 else 0)
        name, slot = self.pick(("Add", "Mul")), self.below(2)
        if not has_room:
            return None
        step = ("combine", name, axiom, (left, right), slot)
        return grown.then(combined(self.pool, name, grown.sides, (left, right), slot), step)

    def rewritten(self, derivation: Derivation, depth: int) -> Derivation | None:
        """The derivation after one rewrite of a random node of one side, or None: no rule fits there, or it would go deeper."""
        which, index, path = self.place(derivation.sides)
        expanding = self.chance(self.habits.expansion)
        found = (draw_expansion if expanding else draw_match)(self.rules, path[-1][0], self.rng)
        if found is None:
            return None
        rule, bindings = found
        fills = self.fill(rule, bindings)
        if len(path) + rule.depth_of(bindings) > depth:  # most are: seen before the tree is made
            return None
        sides = self.replaced(derivation.sides, which, path, rule, bindings)
        step = ("rewrite", rule.name, which, index)
        return derivation.then(sides, (*step, fills) if fills else step)

    def place(self, sides: Sides) -> tuple[int, int, Path]:
        """A random node of a random side: the side, its position there, the path to it."""
        which = self.below(2)
        index = self.below(sides[which].size)
        return which, index, path_to(sides[which], index)

    def fill(self, rule: Rule, bindings: Bindings) -> tuple[Node, ...]:
        """Bind the variables that are new in the rule's target to leaves, which are returned."""
        for label in rule.new:
            bindings[label] = self.leaf()
        return tuple([bindings[label] for label in rule.new])

    def replaced(self, sides: Sides, which: int, path: Path, rule: Rule, bindings: Bindings) -> Sides:
        """The sides with the node at the end of a path replaced by what the rule makes of it."""
        new = self.pool.rebuilt(path, instantiate(self.pool, rule.target, bindings, self.leaf))
        return (new, sides[1]) if which == 0 else (sides[0], new)

    def _same_to_both(self, grown: Derivation, has_room: bool) -> Derivation | None:
        name = self.pick(FUNCTIONS)
        operands = () if name in UNARY else (self.expression(1), self.below(2))
        if not has_room:
            return None
        if not operands:
            return grown.then((self.pool.node(name, grown.left), self.pool.node(name, grown.right)), ("both", name))
        operand, slot = operands
        return grown.then(combined(self.pool, name, grown.sides, (operand, operand), slot), ("both", name, operand, slot))
