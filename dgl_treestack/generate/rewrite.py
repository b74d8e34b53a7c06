"""Rewriting with axioms, by sound matching over hash-consed trees, and derivations, whose steps can be replayed one by one.

Tables of axioms are text files: `#` comments, `[section]` headings, one equation per line in infix notation. One has identities
that hold, one deliberately false rules.

A rule is one direction of an axiom. A variable matches any subtree, and equal subtrees at all its occurrences; a variable that
occurs only in the target is filled by the caller.

A step of a derivation is in a file a list: its kind, then its arguments.
    ["start", axiom, equation]                      an instance of an axiom; of `same`, an equation t = t
    ["rewrite", axiom and direction, side, node]    the rule `circular:3>` (left to right) or `circular:3<` applied to a node of
                                                    side 0 or 1, nodes counted from 0 in pre-order; a fifth entry lists the
                                                    subtrees that fill the new variables of the rule
    ["both", function]                              the function applied to both sides
    ["both", operator, expression, slot]            a binary operator with an expression in slot 0 or 1, on both sides
    ["combine", operator, axiom, equation, slot]    the operator between the equation so far and an instance of an axiom, side
                                                    by side, with the instance in the slot
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.nodes import Node, Pool, find, to_expression

AXIOMS = Path(__file__).parent.parent / "resources" / "axioms.txt"
FALSE_RULES = AXIOMS.with_name("axioms_false.txt")

Bindings = dict[str, Node]  # label of a pattern variable -> the subtree it is bound to
Filler = Callable[[], Node]
SAME = "same"  # the name of t = t
Step = tuple[Any, ...]


@dataclass(frozen=True)
class Axiom:
    """One equation of a table. name: `section:n`, n counting from 1 within the section. line: of the file."""

    name: str
    equation: Equation
    line: int


def load_axioms(path: Path = AXIOMS) -> tuple[Axiom, ...]:
    """Return the rules of a table, by default the identities of the package. Raises DataError with file and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot be read as UTF-8 text: {error}.", path) from None
    axioms: dict[Equation, Axiom] = {}
    section, count = "", 0
    for number, line in enumerate(lines, start=1):
        text, problem = line.partition("#")[0].strip(), ""
        if text.startswith("["):
            section, count = text.removeprefix("[").removesuffix("]").strip(), 0
            if text != f"[{section}]" or not section.isidentifier():
                problem = f"{text!r} is not a section heading. Write [name]."
        elif text and not section:
            problem = "An equation stands before the first [section]. Name its group."
        elif text:
            try:
                equation, count = Equation.parse(text), count + 1
                axiom = axioms.setdefault(equation, Axiom(f"{section}:{count}", equation, number))
                if axiom.line != number:
                    problem = f"{text!r} is already on line {axiom.line}. Drop one."
            except ExpressionError as error:
                problem = str(error)
        if problem:
            raise DataError(problem, path, number)
    return tuple(axioms.values())


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


@dataclass(frozen=True, slots=True)
class Derivation:
    """An equation and the steps that lead to it. A step is as in a file, with nodes in place of expressions."""

    root: Node
    steps: tuple[Step, ...]


def apply_to_both(pool: Pool, name: str, root: Node, operands: Sequence[Node] = (), slot: int = 0) -> Node:
    """Apply a function to both sides, or a binary operator with the operands of the left and right side in the given slot."""
    sides = []
    for i, side in enumerate(root.children):
        arguments = (operands[i], side) if operands and slot == 0 else (side, *operands[i : i + 1])
        sides.append(pool.node(name, *arguments))
    return pool.node("Equality", *sides)


def replay(steps: Sequence[Sequence[Any]]) -> Iterator[tuple[str, Equation]]:
    """Apply the steps of a file one by one: yield a description of each and the equation after it.

    Raises DataError at a step that does not apply.
    """
    if not isinstance(steps, list | tuple):
        raise DataError(f"A derivation is a list of steps, found {type(steps).__name__}.")
    rules = rule_index().by_name
    pool, root = Pool(), None
    for number, step in enumerate(steps, 1):
        try:
            description, root = _apply(step, root, rules, pool)
            equation = to_expression(root, Equation)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError):  # ExpressionError is a ValueError
            raise DataError(f"Step {number} of a derivation cannot be taken: {step!r}.") from None
        yield description, equation


def _apply(step: Sequence[Any], root: Node | None, rules: Mapping[str, Rule], pool: Pool) -> tuple[str, Node]:
    """Return the description of a step and the equation after it. Raises any kind of error if the step does not apply."""
    match tuple(step):
        case ("start", axiom, text) if root is None:
            return ("t = t" if axiom == SAME else f"an instance of {axiom}"), _parse_instance(axiom, text, rules, pool)
        case ("rewrite", name, side, index, *fills) if root and side in (0, 1) and len(fills) < 2:
            rule, node = rules[name], find(root.children[side], index)
            operands = iter([pool.tree(Expression.parse(text)) for text in (fills[0] if fills else ())])
            bindings = match(rule.source, node)
            if bindings is not None:
                index += 1 + side * root.children[0].size
                new = pool.replace(root, index, instantiate(pool, rule.target, bindings, operands.__next__))
                rule_text = f"{to_expression(rule.source)} -> {to_expression(rule.target)} ({rule.name[:-1]})"
                return f"{rule_text} on the {('left', 'right')[side]}: {to_expression(node)}", new
        case ("both", name, *operand) if root and len(operand) < 3:
            if not operand or not operand[0]:
                return f"{name} of both sides", apply_to_both(pool, name, root)
            tree = pool.tree(Expression.parse(operand[0]))
            slot = operand[1] if len(operand) == 2 else 0
            return f"{name} with {operand[0]} on both sides", apply_to_both(pool, name, root, (tree, tree), slot)
        case ("combine", name, axiom, text, slot) if root:
            instance = _parse_instance(axiom, text, rules, pool)
            return f"{name} with {axiom}: {text}", apply_to_both(pool, name, root, instance.children, slot)
    raise ValueError(step)


def _parse_instance(axiom: str, text: str, rules: Mapping[str, Rule], pool: Pool) -> Node:
    """Return the node of an equation that must be an instance of the axiom in either direction. Raises ValueError."""
    instance = pool.tree(Equation.parse(text))
    left, right = instance.children
    if axiom == SAME:
        is_instance = left is right
    else:
        rule, patterns = rules[axiom + ">"], Pool()
        pattern = patterns.node("Equality", rule.source, rule.target)
        reverse = pool.node("Equality", right, left)
        is_instance = any(match(pattern, equation) is not None for equation in (instance, reverse))
    if not is_instance:
        raise ValueError(axiom)
    return instance
