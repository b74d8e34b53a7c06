"""Expressions to fill blanks with: all small ones, random ones of an exact depth, near misses and equal rewritings."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeVar

import numpy as np

from dgl_treestack.generate.nodes import Node, Pool, find
from dgl_treestack.generate.pieces import CONSTANTS, UNARY
from dgl_treestack.generate.rewrite import instantiate, rule_index

BINARY = ("Add", "Mul", "Pow")
_BINARY_SHARE = 0.6  # of the operators of a random expression, about as in derived ones
_CONSTANT_SHARE = 0.3
_EXPANSION_SHARE = 0.15

Option = TypeVar("Option")


class Filler:
    """Makes fillers over a set of variables in one pool from one random stream."""

    def __init__(self, variables: Sequence[str], rng: np.random.Generator):
        self.pool, self.rng = Pool(), rng
        self.variables = [self.pool.leaf("Symbol", name) for name in variables]
        self.leaves = [*self.variables, *(self.pool.leaf(*constant) for constant in CONSTANTS)]

    def pick(self, options: Sequence[Option]) -> Option:
        """Draw one of the options, all equally likely."""
        return options[int(self.rng.integers(len(options)))]

    def simple(self) -> Iterator[Node]:
        """Yield all leaves and all expressions of depth 1."""
        yield from self.leaves
        for name, leaf in product(UNARY, self.leaves):
            yield self.pool.node(name, leaf)
        for name, first, second in product(BINARY, self.leaves, self.leaves):
            yield self.pool.node(name, first, second)

    def drawn(self, depth: int) -> Node:
        """Draw an expression of exactly this depth: one deep branch and small ones, as in derived expressions."""
        if depth == 0:
            is_constant = self.rng.random() < _CONSTANT_SHARE
            return self.pick(self.leaves[len(self.variables) :] if is_constant else self.variables)
        if self.rng.random() >= _BINARY_SHARE:
            return self.pool.node(self.pick(UNARY), self.drawn(depth - 1))
        small = self.drawn(min(depth - 1, int(self.rng.geometric(0.52)) - 1))
        operands = (self.drawn(depth - 1), small)
        return self.pool.node(self.pick(BINARY), *(operands if self.rng.random() < 0.5 else operands[::-1]))

    def near_miss(self, node: Node) -> Node | None:
        """Exchange one operator or leaf, or swap two subtrees. Returns None unless another tree of the same depth results."""
        if self.rng.random() < 0.5:
            index = int(self.rng.integers(node.size))
            children = find(node, index).children
            names = UNARY if len(children) == 1 else BINARY
            new = self.pool.node(self.pick(names), *children) if children else self.drawn(0)
            changed = self.pool.replace(node, index, new)
        else:
            early, late = sorted(int(index) for index in self.rng.integers(node.size, size=2))
            first, second = find(node, early), find(node, late)
            if early + first.size > late:
                return None
            changed = self.pool.replace(node, late, first)  # the later one first, so that the earlier index stays valid
            changed = self.pool.replace(changed, early, second)
        return changed if changed is not node and changed.depth == node.depth else None

    def rewriting(self, node: Node, tries: int = 60) -> Node | None:
        """Rewrite an expression by the axioms to a different one of the same depth, or return None."""
        current = node
        for step in range(tries):
            index = int(self.rng.integers(current.size))
            part = find(current, index)
            if self.rng.random() < _EXPANSION_SHARE:
                matches = [(rule, {rule.source.label: part}) for rule in rule_index().expansions]
            else:
                matches = rule_index().matches(part)
            if matches:
                # fills new variables in the cached bindings: the next use of the rule at this node gives the same result
                rule, bindings = self.pick(matches)
                new = instantiate(self.pool, rule.target, bindings, lambda: self.drawn(0))
                changed = self.pool.replace(current, index, new)
                if changed.depth <= node.depth and changed.size < node.size + 10:
                    current = changed
            if step > 2 and current.depth == node.depth and current is not node:
                return current
        return None
