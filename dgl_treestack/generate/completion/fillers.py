"""Expressions to fill blanks with: all small ones, random ones of an exact depth, near misses and equal rewritings."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeVar

import numpy as np

from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.nodes import Node, Pool, find
from dgl_treestack.generate.pieces import CONSTANTS, UNARY
from dgl_treestack.generate.rewrite import Bindings, Rule, RuleIndex, instantiate, rules_of

BINARY = ("Add", "Mul", "Pow")
_BINARY_SHARE = 0.6  # of the operators of a random expression; derived ones have about as many
_CONSTANT_SHARE = 0.3
_EXPANSION_SHARE = 0.15

Option = TypeVar("Option")


class Filler:
    """Makes fillers over some variables in one pool from one random stream."""

    def __init__(self, variables: Sequence[str], rng: np.random.Generator):
        self.pool, self.rng = Pool(), rng
        self.variables = [self.pool.leaf("Symbol", name) for name in variables]
        self.leaves = [*self.variables, *(self.pool.leaf(*constant) for constant in CONSTANTS)]
        self._rules = RuleIndex(rules_of(load_axioms()))

    def simple(self) -> Iterator[Node]:
        """Every leaf and every expression of depth 1."""
        yield from self.leaves
        for name, leaf in product(UNARY, self.leaves):
            yield self.pool.node(name, leaf)
        for name, first, second in product(BINARY, self.leaves, self.leaves):
            yield self.pool.node(name, first, second)

    def leaf(self) -> Node:
        """A random leaf."""
        constant = self.rng.random() < _CONSTANT_SHARE
        return self.pick(self.leaves[len(self.variables) :] if constant else self.variables)

    def drawn(self, depth: int) -> Node:
        """A random expression of exactly this depth: one deep branch with small ones beside it, as derived ones have."""
        if depth == 0:
            return self.leaf()
        if self.rng.random() >= _BINARY_SHARE:
            return self.pool.node(self.pick(UNARY), self.drawn(depth - 1))
        beside = self.drawn(min(depth - 1, int(self.rng.geometric(0.52)) - 1))
        operands = (self.drawn(depth - 1), beside)
        return self.pool.node(self.pick(BINARY), *(operands if self.rng.random() < 0.5 else operands[::-1]))

    def near_miss(self, node: Node) -> Node | None:
        """The expression with one operator or leaf exchanged or two subtrees swapped, of the same depth; None by bad luck."""
        change = self._exchanged if self.rng.random() < 0.5 else self._swapped
        changed = change(node)
        return changed if changed is not None and changed is not node and changed.depth == node.depth else None

    def _exchanged(self, node: Node) -> Node:
        index = int(self.rng.integers(node.size))
        old = find(node, index)
        if not old.children:
            return self.pool.replace(node, index, self.leaf())
        name = self.pick(UNARY if len(old.children) == 1 else BINARY)
        return self.pool.replace(node, index, self.pool.node(name, *old.children))

    def _swapped(self, node: Node) -> Node | None:
        first, second = sorted(int(index) for index in self.rng.integers(node.size, size=2))
        one, other = find(node, first), find(node, second)
        if first + one.size > second:
            return None
        changed = self.pool.replace(node, second, one)  # the later one first: the earlier index stays valid
        return self.pool.replace(changed, first, other)

    def rewriting(self, node: Node, tries: int = 60) -> Node | None:
        """A different expression of the same depth, equal by the axioms, or None."""
        current = node
        for step in range(tries):
            changed = self._rewritten(current)
            if changed.depth <= node.depth and changed.size < node.size + 10:
                current = changed
            if step > 2 and current.depth == node.depth and current is not node:
                return current
        return None

    def _rewritten(self, node: Node) -> Node:
        """The expression after one rule at one node, or as it is when none fits there."""
        index = int(self.rng.integers(node.size))
        part = find(node, index)
        if self.rng.random() < _EXPANSION_SHARE:
            fitting: list[tuple[Rule, Bindings]] = [(rule, {rule.source.label: part}) for rule in self._rules.expansions]
        else:
            fitting = self._rules.matches(part)
        if not fitting:
            return node
        rule, bindings = self.pick(fitting)
        return self.pool.replace(node, index, instantiate(self.pool, rule.target, bindings, self.leaf))

    def pick(self, options: Sequence[Option]) -> Option:
        """One of the options, evenly."""
        return options[int(self.rng.integers(len(options)))]
