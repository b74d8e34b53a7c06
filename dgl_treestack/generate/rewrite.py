"""Rewriting with axioms: sound matching and instantiation over hash-consed trees.

A rule is one direction of an axiom. Its variables match any subtree, the same variable always the same one; a variable
that occurs only on the other side is filled in by the caller.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dgl_treestack.generate.axioms import Axiom
from dgl_treestack.generate.nodes import Node, Pool

Bindings = dict[str, Node]  # label of a pattern variable -> what it stands for
Filler = Callable[[], Node]


@dataclass(frozen=True)
class Rule:
    """Replace an instance of `source` by the instance of `target`; both are pattern trees of a private pool."""

    axiom: str
    source: Node
    target: Node

    @property
    def is_expansion(self) -> bool:
        """A rule whose source is a bare variable: it fits everywhere and only makes trees larger."""
        return self.source.name == "Symbol"


def rules_of(axioms: Iterable[Axiom]) -> tuple[Rule, ...]:
    """Both directions of every axiom; a direction that only renames variables is left out."""
    pool, rules = Pool(), []
    for axiom in axioms:
        left, right = pool.tree(axiom.equation).children
        forward, backward = Rule(axiom.name, left, right), Rule(axiom.name, right, left)
        rules += [forward] if _same_up_to_swap(axiom) else [forward, backward]
    return tuple(rules)


def _same_up_to_swap(axiom: Axiom) -> bool:
    """Commutativity: its reverse is the same rule."""
    left, right = axiom.equation.left, axiom.equation.right
    return left.names == right.names and left.size == 3 and {*left.leaves()} != {*right.leaves()}


class RuleIndex:
    """Rules by the root of their source, an operator or a constant; expansions, which fit anywhere, apart."""

    def __init__(self, rules: Sequence[Rule]):
        self.expansions = tuple(rule for rule in rules if rule.is_expansion)
        self._by_label: dict[str, tuple[Rule, ...]] = {}
        for rule in rules:
            if not rule.is_expansion:
                label = rule.source.label
                self._by_label[label] = (*self._by_label.get(label, ()), rule)

    def candidates(self, node: Node) -> tuple[Rule, ...]:
        """The rules, expansions aside, whose source has the node's label."""
        return self._by_label.get(node.label, ())

    def matches(self, node: Node) -> list[tuple[Rule, Bindings]]:
        """Every rule, expansions aside, that fits a node, with its bindings."""
        found = []
        for rule in self.candidates(node):
            bindings = match(rule.source, node)
            if bindings is not None:
                found.append((rule, bindings))
        return found


def match(pattern: Node, node: Node) -> Bindings | None:
    """The bindings under which `pattern` is `node`, or None."""
    bindings: Bindings = {}
    pending = [(pattern, node)]
    while pending:
        wanted, found = pending.pop()
        if wanted.name == "Symbol":
            if bindings.setdefault(wanted.label, found) is not found:
                return None
        elif wanted.name != found.name or wanted.text != found.text:
            return None
        else:
            pending.extend(zip(wanted.children, found.children, strict=True))
    return bindings


def instantiate(pool: Pool, pattern: Node, bindings: Bindings, fill: Filler) -> Node:
    """The pattern with its variables replaced; an unbound one is filled once and remembered in `bindings`."""
    if pattern.name == "Symbol":
        if pattern.label not in bindings:
            bindings[pattern.label] = fill()
        return bindings[pattern.label]
    if pattern.text is not None:
        return pool.leaf(pattern.name, pattern.text)
    return pool.node(pattern.name, *(instantiate(pool, child, bindings, fill) for child in pattern.children))


def rewrite(pool: Pool, index: RuleIndex, node: Node, fill: Filler, rng: np.random.Generator) -> Node | None:
    """An equal tree by one rule drawn from those that fit, or None when none does."""
    found = index.matches(node)
    if not found:
        return None
    rule, bindings = found[rng.integers(len(found))]
    return instantiate(pool, rule.target, bindings, fill)


def expand(pool: Pool, index: RuleIndex, node: Node, fill: Filler, rng: np.random.Generator) -> Node:
    """An equal, larger tree by an expansion drawn at random."""
    rule = index.expansions[rng.integers(len(index.expansions))]
    return instantiate(pool, rule.target, {rule.source.label: node}, fill)
