"""How an equation was derived, as steps that can be taken again one by one.

In a file a step is a list: its kind, then what it needs.
    ["start", axiom, equation]                      an instance of an axiom; of `same`, an equation t = t
    ["rewrite", axiom and direction, side, node]    the rule `circular:3>` (left to right) or `circular:3<` applied to a node of
                                                    side 0 or 1, nodes counted from 0 in pre-order; a fifth entry lists what
                                                    new variables of the rule stand for
    ["both", function]                              the function applied to both sides
    ["both", operator, expression, slot]            a binary operator with an expression in slot 0 or 1, on both sides
    ["combine", operator, axiom, equation, slot]    the operator between the equation so far and an instance of an axiom,
                                                    left with left and right with right, the instance in the slot
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dgl_treestack.errors import DataError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.axioms import Axiom, load_axioms
from dgl_treestack.generate.nodes import Node, Pool, find, to_equation, to_expression
from dgl_treestack.generate.rewrite import Rule, instantiate, match, rules_of

SAME = "same"  # the name of t = t
Sides = tuple[Node, Node]
Step = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Derivation:
    """Two sides that are equal because of the steps; trees in a step are nodes until it is written."""

    left: Node
    right: Node
    steps: tuple[Step, ...]

    @property
    def sides(self) -> Sides:
        return self.left, self.right

    def then(self, sides: Sides, step: Step) -> "Derivation":
        """The derivation with one more step, which leads to `sides`."""
        return Derivation(*sides, (*self.steps, step))

    def written(self) -> list[list[Any]]:
        """The steps as plain data."""
        return [_written(step) for step in self.steps]


def depth_of(sides: Sides) -> int:
    """The depth of the equation between two sides."""
    return 1 + max(sides[0].depth, sides[1].depth)


def size_of(sides: Sides) -> int:
    """The nodes of the equation between two sides."""
    return 1 + sides[0].size + sides[1].size


def combined(pool: Pool, name: str, sides: Sides, others: Sides, slot: int) -> Sides:
    """A binary operator over two pairs of sides, `others` in the given slot."""
    first, second = (others, sides) if slot == 0 else (sides, others)
    return pool.node(name, first[0], second[0]), pool.node(name, first[1], second[1])


def _written(step: Step) -> list[Any]:
    plain: list[Any] = []
    for entry in step:
        if isinstance(entry, Node):
            plain.append(str(to_expression(entry)))
        elif isinstance(entry, tuple):
            trees = [str(to_expression(node)) for node in entry]
            plain.append(" = ".join(trees) if step[0] != "rewrite" else trees)
        else:
            plain.append(entry)
    return plain


def replay(steps: Sequence[Sequence[Any]], axioms: Sequence[Axiom] | None = None) -> Iterator[tuple[str, Equation]]:
    """Take the steps of a file again: a description of each, and the equation after it.

    Raises DataError at a step that cannot be taken.
    """
    if not isinstance(steps, list | tuple):
        raise DataError(f"A derivation is a list of steps, found {type(steps).__name__}.")
    rules, pool, sides = _rules(None if axioms is None else tuple(axioms)), Pool(), None
    for number, step in enumerate(steps, 1):
        try:
            kind, *rest = step
            if (kind == "start") != (sides is None):
                raise ValueError
            described, sides = _REPLAY[kind](pool, rules, sides, *rest)
            equation = to_equation(*sides)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError):  # ExpressionError is a ValueError
            raise DataError(f"Step {number} of a derivation cannot be taken: {step!r}.") from None
        yield described, equation


@cache
def _rules(axioms: tuple[Axiom, ...] | None) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules_of(load_axioms() if axioms is None else axioms)}


def _parse_instance(pool: Pool, rules: Mapping[str, Rule], axiom: str, text: str) -> Sides:
    """The sides of an equation that must be an instance of the axiom, either way round."""
    left, right = pool.tree(Equation.parse(text)).children
    instance = left is right if axiom == SAME else _is_instance(rules[axiom + ">"], left, right)
    if not instance:
        raise ValueError
    return left, right


def _is_instance(rule: Rule, left: Node, right: Node) -> bool:
    pattern = Pool()
    both = pattern.node("Equality", rule.source, rule.target)
    return any(match(both, pattern.node("Equality", *sides)) is not None for sides in ((left, right), (right, left)))


def _start(pool: Pool, rules: Mapping[str, Rule], _: None, axiom: str, text: str) -> tuple[str, Sides]:
    return ("t = t" if axiom == SAME else f"an instance of {axiom}"), _parse_instance(pool, rules, axiom, text)


def _rewrite(
    pool: Pool, rules: Mapping[str, Rule], sides: Sides, name: str, side: int, index: int, fills: Sequence[str] = ()
) -> tuple[str, Sides]:
    rule, node = rules[name], find(sides[side], index)
    bindings = match(rule.source, node)
    if bindings is None:
        raise ValueError
    new = [pool.tree(Expression.parse(text)) for text in fills]
    replaced = pool.replace(sides[side], index, instantiate(pool, rule.target, bindings, iter(new).__next__))
    described = f"{rule} on the {('left', 'right')[side]}: {to_expression(node)}"
    return described, (replaced, sides[1]) if side == 0 else (sides[0], replaced)


def _both(pool: Pool, _: Any, sides: Sides, name: str, text: str = "", slot: int = 0) -> tuple[str, Sides]:
    if not text:
        return f"{name} of both sides", (pool.node(name, sides[0]), pool.node(name, sides[1]))
    operand = pool.tree(Expression.parse(text))
    return f"{name} with {text} on both sides", combined(pool, name, sides, (operand, operand), slot)


def _combine(
    pool: Pool, rules: Mapping[str, Rule], sides: Sides, name: str, axiom: str, text: str, slot: int
) -> tuple[str, Sides]:
    return f"{name} with {axiom}: {text}", combined(pool, name, sides, _parse_instance(pool, rules, axiom, text), slot)


_REPLAY: dict[str, Any] = {"start": _start, "rewrite": _rewrite, "both": _both, "combine": _combine}
