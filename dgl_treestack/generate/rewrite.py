"""Rewriting with axioms: sound matching and instantiation over hash-consed trees.

Tables of axioms are text files: `#` comments, `[section]` headings, one equation per line in infix notation. One has identities
that hold, one deliberately false rules.

A rule is one direction of an axiom. A variable matches any subtree, and equal subtrees at all its occurrences; a variable that
occurs only in the target is filled by the caller.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Equation
from dgl_treestack.generate.nodes import Node, Pool

AXIOMS = Path(__file__).parent.parent / "resources" / "axioms.txt"
FALSE_RULES = AXIOMS.with_name("axioms_false.txt")

Bindings = dict[str, Node]  # label of a pattern variable -> the subtree it is bound to
Filler = Callable[[], Node]


@dataclass(frozen=True)
class Axiom:
    """One line of a table. name: `section:n`, n counting from 1 within the section."""

    name: str
    section: str
    equation: Equation


def load_axioms(path: Path = AXIOMS) -> tuple[Axiom, ...]:
    """Return the rules of a table, by default the identities of the package. Raises DataError with file and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot be read as UTF-8 text: {error}.", path) from None
    axioms: list[Axiom] = []
    first_line: dict[Equation, int] = {}
    section, count = "", 0
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if text.startswith("["):
            section, count = text.removeprefix("[").removesuffix("]").strip(), 0
            if text != f"[{section}]" or not section.isidentifier():
                raise DataError(f"{text!r} is not a section heading. Write [name].", path, number)
            continue
        if not section:
            raise DataError("An equation stands before the first [section]. Name its group.", path, number)
        try:
            equation, count = Equation.parse(text), count + 1
        except ExpressionError as error:
            raise DataError(str(error), path, number) from None
        if equation in first_line:
            raise DataError(f"{text!r} is already on line {first_line[equation]}. Drop one.", path, number)
        first_line[equation] = number
        axioms.append(Axiom(f"{section}:{count}", section, equation))
    return tuple(axioms)


class Rule:
    """Replace an instance of `source` by the instance of `target`; both are pattern trees of a private pool.

    name: the axiom's, with `>` for left to right and `<` for right to left.
    is_expansion: the source is a bare variable, so the rule fits every node and only makes trees larger.
    new: the labels of the target's variables that do not occur in the source, by first occurrence.
    """

    def __init__(self, name: str, source: Node, target: Node):
        self.name, self.source, self.target = name, source, target
        self.is_expansion = source.name == "Symbol"
        self._variable_depths: dict[str, int] = {}  # per variable of the target, the greatest depth at which it occurs
        pending = [(target, 0)]
        while pending:
            node, depth = pending.pop()
            if node.name == "Symbol":
                self._variable_depths[node.label] = max(depth, self._variable_depths.get(node.label, 0))
            pending.extend((child, depth + 1) for child in reversed(node.children))
        source_labels = {node.label for node in source.walk()}
        self.new = tuple(label for label in self._variable_depths if label not in source_labels)

    def depth_of(self, bindings: Bindings) -> int:
        """Return the depth of the instance of the target without building it."""
        depth = self.target.depth
        for label, variable_depth in self._variable_depths.items():
            depth = max(depth, variable_depth + bindings[label].depth)
        return depth


class RuleIndex:
    """Rules by the labels of their source's root and its children; expansions, which fit every node, are separate.

    The matches of a node are cached on the node: a rewrite replaces only the nodes from there up to the root.
    """

    def __init__(self, axioms: Iterable[Axiom]):
        """Make rules of both directions of every axiom, but one of a commutative law, whose reverse is the same rule."""
        pool, rules = Pool(), list[Rule]()
        for axiom in axioms:
            source, target = pool.tree(axiom.equation).children
            rules.append(Rule(f"{axiom.name}>", source, target))
            left, right = axiom.equation.left, axiom.equation.right
            commutes = left.names == right.names and left.size == 3 and {*left.leaves()} != {*right.leaves()}
            if not commutes:
                rules.append(Rule(f"{axiom.name}<", target, source))
        self.by_name = {rule.name: rule for rule in rules}
        self.expansions = tuple(rule for rule in rules if rule.is_expansion)
        self._by_labels: dict[tuple[str, ...], list[Rule]] = {}  # label of the root, then of the children, "" for a variable
        for rule in rules:
            if not rule.is_expansion:
                children = ("" if child.name == "Symbol" else child.label for child in rule.source.children)
                self._by_labels.setdefault((rule.source.label, *children), []).append(rule)

    def matches(self, node: Node) -> list[tuple[Rule, Bindings]]:
        """Return all rules except expansions that fit a node, with their bindings. The list is cached; do not change it."""
        matches = node.memory.get(self)
        if matches is None:
            matches = node.memory[self] = []
            for labels in product((node.label,), *((child.label, "") for child in node.children)):
                for rule in self._by_labels.get(labels, ()):
                    bindings = match(rule.source, node)
                    if bindings is not None:
                        matches.append((rule, bindings))
        return matches

    def draw(self, node: Node, rng: np.random.Generator, expanding: bool = False) -> tuple[Rule, Bindings] | None:
        """Draw one of the rules that fit a node, with a copy of its bindings; None when none fits.

        expanding: draw one of the expansions, which always fit, instead of one of the other rules.
        """
        if expanding:
            rule = self.expansions[int(rng.integers(len(self.expansions)))]
            return rule, {rule.source.label: node}
        matches = self.matches(node)
        if not matches:
            return None
        rule, bindings = matches[int(rng.integers(len(matches)))]
        return rule, {**bindings}


@cache
def rule_index(path: Path = AXIOMS) -> RuleIndex:
    """Return the rules of a table, loaded once per process."""
    return RuleIndex(load_axioms(path))


def match(pattern: Node, node: Node) -> Bindings | None:
    """Return the bindings under which `pattern` equals `node`, or None."""
    bindings: Bindings = {}
    pending = [(pattern, node)]
    while pending:
        expected, actual = pending.pop()
        if expected.name == "Symbol":
            if bindings.setdefault(expected.label, actual) is not actual:
                return None
        elif expected.name != actual.name or expected.text != actual.text:
            return None
        else:
            pending.extend(zip(expected.children, actual.children, strict=True))
    return bindings


def instantiate(pool: Pool, pattern: Node, bindings: Bindings, fill: Filler) -> Node:
    """Return the pattern with its variables replaced. An unbound one is filled once and added to `bindings`."""
    if pattern.name == "Symbol":
        if pattern.label not in bindings:
            bindings[pattern.label] = fill()
        return bindings[pattern.label]
    if pattern.text is not None:
        return pool.leaf(pattern.name, pattern.text)
    return pool.node(pattern.name, *[instantiate(pool, child, bindings, fill) for child in pattern.children])
