"""Rewriting with axioms: sound matching and instantiation over hash-consed trees.

A rule is one direction of an axiom. Its variables match any subtree, the same variable always the same one; a variable
that occurs only on the other side is filled in by the caller.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from dgl_treestack.generate.axioms import Axiom
from dgl_treestack.generate.nodes import Node, Pool, to_expression

Bindings = dict[str, Node]  # label of a pattern variable -> what it stands for
Filler = Callable[[], Node]


@dataclass(frozen=True)
class Rule:
    """Replace an instance of `source` by the instance of `target`; both are pattern trees of a private pool.

    name: the axiom's, with `>` for left to right and `<` for right to left.
    """

    name: str
    source: Node
    target: Node

    @property
    def is_expansion(self) -> bool:
        """A rule whose source is a bare variable: it fits everywhere and only makes trees larger."""
        return self.source.name == "Symbol"

    @cached_property
    def new(self) -> tuple[str, ...]:
        """The labels of the target's variables that do not occur in the source."""
        return tuple(label for label in self._standing if label not in {found.label for found in self.source.walk()})

    @cached_property
    def _standing(self) -> dict[str, int]:
        """Per variable of the target, by first occurrence, the greatest depth at which it stands there."""
        deepest: dict[str, int] = {}
        pending = [(self.target, 0)]
        while pending:
            node, depth = pending.pop()
            if node.name == "Symbol":
                deepest[node.label] = max(depth, deepest.get(node.label, 0))
            pending.extend((child, depth + 1) for child in reversed(node.children))
        return deepest

    def depth_of(self, bindings: Bindings) -> int:
        """The depth of the instance of the target."""
        depth = self.target.depth
        for label, standing in self._standing.items():
            depth = max(depth, standing + bindings[label].depth)
        return depth

    def __str__(self) -> str:
        return f"{to_expression(self.source)} -> {to_expression(self.target)} ({self.name[:-1]})"


def rules_of(axioms: Iterable[Axiom]) -> tuple[Rule, ...]:
    """Both directions of every axiom; a direction that only renames variables is left out."""
    pool, rules = Pool(), []
    for axiom in axioms:
        left, right = pool.tree(axiom.equation).children
        forward, backward = Rule(f"{axiom.name}>", left, right), Rule(f"{axiom.name}<", right, left)
        rules += [forward] if _same_up_to_swap(axiom) else [forward, backward]
    return tuple(rules)


def _same_up_to_swap(axiom: Axiom) -> bool:
    """Commutativity: its reverse is the same rule."""
    left, right = axiom.equation.left, axiom.equation.right
    return left.names == right.names and left.size == 3 and {*left.leaves()} != {*right.leaves()}


class RuleIndex:
    """Rules by what their source looks like from above; expansions, which fit anywhere, apart.

    What fits a node is remembered by the node: a rewrite changes only the nodes on its way to the root.
    """

    def __init__(self, rules: Sequence[Rule]):
        self.expansions = tuple(rule for rule in rules if rule.is_expansion)
        self._by_labels: dict[tuple[str, ...], list[Rule]] = {}
        for rule in rules:
            if not rule.is_expansion:
                children = ("" if child.name == "Symbol" else child.label for child in rule.source.children)
                self._by_labels.setdefault((rule.source.label, *children), []).append(rule)

    def candidates(self, node: Node) -> list[Rule]:
        """The rules, expansions aside, whose source has the node's label, and its children's where it names them."""
        found: list[Rule] = []
        for labels in product((node.label,), *((child.label, "") for child in node.children)):
            found += self._by_labels.get(labels, ())
        return found

    def matches(self, node: Node) -> list[tuple[Rule, Bindings]]:
        """Every rule, expansions aside, that fits a node, with its bindings."""
        found = node.memory.get(self)
        if found is None:
            bound = ((rule, match(rule.source, node)) for rule in self.candidates(node))
            found = node.memory[self] = [(rule, bindings) for rule, bindings in bound if bindings is not None]
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
    return pool.node(pattern.name, *[instantiate(pool, child, bindings, fill) for child in pattern.children])


def draw_match(index: RuleIndex, node: Node, rng: np.random.Generator) -> tuple[Rule, Bindings] | None:
    """One of the rules that fit a node, expansions aside, with its bindings, or None when none does."""
    found = index.matches(node)
    if not found:
        return None
    rule, bindings = found[int(rng.integers(len(found)))]
    return rule, {**bindings}


def draw_expansion(index: RuleIndex, node: Node, rng: np.random.Generator) -> tuple[Rule, Bindings]:
    """An expansion, which fits any node."""
    rule = index.expansions[int(rng.integers(len(index.expansions)))]
    return rule, {rule.source.label: node}
