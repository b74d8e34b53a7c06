"""Growing equations that hold, from an instance of an axiom to an exact depth."""

from dgl_treestack.generate.derivation import SAME, Derivation, Sides, Step, apply_to_both, depth_of, size_of
from dgl_treestack.generate.nodes import Pool, path_to
from dgl_treestack.generate.pieces import FUNCTIONS, UNARY, VARIABLES, Pieces
from dgl_treestack.generate.rewrite import RuleIndex, instantiate, rule_index

SIZE_PER_DEPTH, SIZE_OFFSET = 4, 6  # an equation of depth d has at most 4d + 6 nodes
_FAR = 4  # if more levels than this are missing, steps are drawn by Habits.far_steps
_AHEAD = 1  # levels by which the size may be ahead of the depth
_POOL = 30_000  # nodes that are kept with their values


class Grower(Pieces):
    """Grows equations in one pool from one random stream."""

    def start(self) -> Derivation:
        """Draw the root of a derivation, an instance of an axiom or t = t, and the variables of the equation."""
        if len(self.pool.nodes) > _POOL:
            self.pool = Pool()
        count = self.weighted(dict(enumerate(self.habits.variables, start=1)))
        self.variables = tuple(sorted(VARIABLES, key=lambda _: self.rng.random())[:count])
        filling_depth = self.pick((0, 0, 1, 2))
        if self.rng.random() < self.habits.axiom:
            name, left, right = self.instance(filling_depth)
        else:
            name, left = SAME, self.function(1 + filling_depth)
            right = left
        return Derivation((left, right), (("start", name, (left, right)),))

    def grow(self, start: Derivation, depth: int) -> Derivation | None:
        """Extend `start` to an equation of exactly this depth with different sides. Returns None after too many steps."""
        derivation = start
        for _ in range(max(60, 4 * depth)):
            left, right = derivation.sides
            if depth_of((left, right)) == depth and left is not right and self.rng.random() < self.habits.stop:
                return derivation
            derivation = self._fitting(self._step(derivation, depth), depth) or derivation
        return None

    def further(self, derivation: Derivation, depth: int, steps: int, tries: int = 20) -> Derivation | None:
        """Extend a derivation by at least `steps` rewrites to exactly this depth and different sides, or return None."""
        for _ in range(tries):
            changed = self._fitting(self.rewritten(derivation, depth), depth)
            if changed is None:
                continue
            derivation, steps = changed, steps - 1
            left, right = derivation.sides
            if steps <= 0 and depth_of((left, right)) == depth and left is not right:
                return derivation
        return None

    def _fitting(self, derivation: Derivation | None, depth: int) -> Derivation | None:
        """Return the derivation, or None if its equation is too deep, or too large for its depth."""
        if derivation is None or depth_of(derivation.sides) > depth:
            return None
        size_depth = min(depth, depth_of(derivation.sides) + _AHEAD)
        return derivation if size_of(derivation.sides) <= SIZE_PER_DEPTH * size_depth + SIZE_OFFSET else None

    def _step(self, derivation: Derivation, depth: int) -> Derivation | None:
        """Draw one step: a rewrite, the same operation on both sides, or the sum or product with an instance of an axiom.

        Returns None if the step would lead beyond the depth.
        """
        kind, levels_left = self.rng.random(), depth - depth_of(derivation.sides)
        # rewriting alone rarely reaches the depth from a shallow equation
        rewrite_share, both_share, _ = self.habits.far_steps if levels_left > _FAR else self.habits.steps
        if kind < rewrite_share:
            return self.rewritten(derivation, depth)
        operands: Sides | None = None
        slot = 0
        if kind < rewrite_share + both_share:
            name = self.pick(FUNCTIONS)
            step: Step = ("both", name)
            if name not in UNARY:
                operand, slot = self.expression(1), self.below(2)
                operands, step = (operand, operand), (*step, operand, slot)
        else:
            axiom, left, right = self.instance(1 if depth > 4 else 0)
            name, slot = self.pick(("Add", "Mul")), self.below(2)
            operands, step = (left, right), ("combine", name, axiom, (left, right), slot)
        if levels_left <= 0:
            return None
        return Derivation(apply_to_both(self.pool, name, derivation.sides, operands, slot), (*derivation.steps, step))

    def rewritten(self, derivation: Derivation, depth: int | None = None, rules: RuleIndex | None = None) -> Derivation | None:
        """Rewrite a random node of a random side. Returns None if no rule fits there or the result would exceed the depth.

        rules: used in place of the axioms, and without expansions.
        """
        side = self.below(2)
        index = self.below(derivation.sides[side].size)
        path = path_to(derivation.sides[side], index)
        expanding = rules is None and self.rng.random() < self.habits.expansion
        drawn = (rules or rule_index()).draw(path[-1][0], self.rng, expanding)
        if drawn is None:
            return None
        rule, bindings = drawn
        fills = tuple([self.leaf() for _ in rule.new])
        bindings.update(zip(rule.new, fills, strict=True))
        if depth is not None and len(path) + rule.depth_of(bindings) > depth:  # most are: checked before the tree is built
            return None
        new = self.pool.replace(derivation.sides[side], index, instantiate(self.pool, rule.target, bindings, self.leaf))
        sides = (new, derivation.sides[1]) if side == 0 else (derivation.sides[0], new)
        step: Step = ("rewrite", rule.name, side, index)
        return Derivation(sides, (*derivation.steps, (*step, fills) if fills else step))
