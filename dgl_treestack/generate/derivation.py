"""The derivation of an equation, as steps that can be replayed one by one.

In a file a step is a list: its kind, then its arguments.
    ["start", axiom, equation]                      an instance of an axiom; of `same`, an equation t = t
    ["rewrite", axiom and direction, side, node]    the rule `circular:3>` (left to right) or `circular:3<` applied to a node of
                                                    side 0 or 1, nodes counted from 0 in pre-order; a fifth entry lists the
                                                    subtrees that fill the new variables of the rule
    ["both", function]                              the function applied to both sides
    ["both", operator, expression, slot]            a binary operator with an expression in slot 0 or 1, on both sides
    ["combine", operator, axiom, equation, slot]    the operator between the equation so far and an instance of an axiom, side
                                                    by side, with the instance in the slot
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dgl_treestack.errors import DataError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.nodes import Node, Pool, find, to_equation, to_expression
from dgl_treestack.generate.rewrite import Rule, instantiate, match, rule_index

SAME = "same"  # the name of t = t
Sides = tuple[Node, Node]
Step = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Derivation:
    """Two sides, and the steps that make them equal. A step is as in a file, with nodes in place of expressions."""

    sides: Sides
    steps: tuple[Step, ...]

    def to_lists(self) -> list[list[Any]]:
        """Return the steps as plain data for a file."""
        lines: list[list[Any]] = []
        for step in self.steps:
            line: list[Any] = []
            for entry in step:
                if isinstance(entry, Node):
                    line.append(str(to_expression(entry)))
                elif isinstance(entry, tuple):
                    texts = [str(to_expression(node)) for node in entry]
                    line.append(texts if step[0] == "rewrite" else " = ".join(texts))
                else:
                    line.append(entry)
            lines.append(line)
        return lines


def depth_of(sides: Sides) -> int:
    """Return the depth of the equation between two sides."""
    return 1 + max(sides[0].depth, sides[1].depth)


def size_of(sides: Sides) -> int:
    """Return the number of nodes of the equation between two sides."""
    return 1 + sides[0].size + sides[1].size


def apply_to_both(pool: Pool, name: str, sides: Sides, operands: Sides | None = None, slot: int = 0) -> Sides:
    """Apply a function to both sides, or a binary operator with the operands of the left and right side in the given slot."""
    if operands is None:
        return pool.node(name, sides[0]), pool.node(name, sides[1])
    first, second = (operands, sides) if slot == 0 else (sides, operands)
    return pool.node(name, first[0], second[0]), pool.node(name, first[1], second[1])


def replay(steps: Sequence[Sequence[Any]]) -> Iterator[tuple[str, Equation]]:
    """Apply the steps of a file one by one: yield a description of each and the equation after it.

    Raises DataError at a step that does not apply.
    """
    if not isinstance(steps, list | tuple):
        raise DataError(f"A derivation is a list of steps, found {type(steps).__name__}.")
    rules = rule_index().by_name
    pool, sides = Pool(), None
    for number, step in enumerate(steps, 1):
        try:
            description, sides = _apply(step, sides, rules, pool)
            equation = to_equation(*sides)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError):  # ExpressionError is a ValueError
            raise DataError(f"Step {number} of a derivation cannot be taken: {step!r}.") from None
        yield description, equation


def _apply(step: Sequence[Any], sides: Sides | None, rules: Mapping[str, Rule], pool: Pool) -> tuple[str, Sides]:
    """Return the description of a step and the sides after it. Raises any kind of error if the step does not apply."""
    if sides is None:
        kind, axiom, text = step
        if kind != "start":
            raise ValueError(kind)
        return ("t = t" if axiom == SAME else f"an instance of {axiom}"), _parse_instance(axiom, text, rules, pool)
    match tuple(step):
        case ("rewrite", name, side, index, *fills) if len(fills) < 2:
            rule, node = rules[name], find(sides[side], index)
            bindings = match(rule.source, node)
            if bindings is None:
                raise ValueError(name)
            operands = iter([pool.tree(Expression.parse(text)) for text in (fills[0] if fills else ())])
            new = pool.replace(sides[side], index, instantiate(pool, rule.target, bindings, operands.__next__))
            rule_text = f"{to_expression(rule.source)} -> {to_expression(rule.target)} ({rule.name[:-1]})"
            description = f"{rule_text} on the {('left', 'right')[side]}: {to_expression(node)}"
            return description, (new, sides[1]) if side == 0 else (sides[0], new)
        case ("both", name, *operand) if len(operand) < 3:
            if not operand or not operand[0]:
                return f"{name} of both sides", apply_to_both(pool, name, sides)
            tree = pool.tree(Expression.parse(operand[0]))
            slot = operand[1] if len(operand) == 2 else 0
            return f"{name} with {operand[0]} on both sides", apply_to_both(pool, name, sides, (tree, tree), slot)
        case ("combine", name, axiom, text, slot):
            instance = _parse_instance(axiom, text, rules, pool)
            return f"{name} with {axiom}: {text}", apply_to_both(pool, name, sides, instance, slot)
    raise ValueError(step)


def _parse_instance(axiom: str, text: str, rules: Mapping[str, Rule], pool: Pool) -> Sides:
    """Return the sides of an equation that must be an instance of the axiom in either direction. Raises ValueError."""
    left, right = pool.tree(Equation.parse(text)).children
    if axiom == SAME:
        is_instance = left is right
    else:
        rule, patterns = rules[axiom + ">"], Pool()
        pattern = patterns.node("Equality", rule.source, rule.target)
        equations = [patterns.node("Equality", *sides) for sides in ((left, right), (right, left))]
        is_instance = any(match(pattern, equation) is not None for equation in equations)
    if not is_instance:
        raise ValueError(axiom)
    return left, right
