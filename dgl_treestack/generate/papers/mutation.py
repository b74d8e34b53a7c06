"""The papers' way to an incorrect equation: one random change at one random node.

It leaks. A change adds or removes tokens on one side, and prefers functions that no correct equation has, so a forest that
only counts tokens per side tells four in five equations apart. Use `corrupt` where that matters; this is for comparisons
with published figures.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate.pieces import UNARY, VARIABLES

BINARY = ("Add", "Mul", "Pow")
# Leaf class -> the texts it may have; a constant is drawn by class first.
CONSTANTS: dict[str, tuple[str, ...]] = {
    "NegativeOne": ("-1",),
    "One": ("1",),
    "Half": ("1/2",),
    "Pi": ("pi",),
    "Integer": ("0", "2", "3", "4", "10"),
    "Rational": ("2/5",),
    "Float": ("0.7",),
}

Option = TypeVar("Option")


def single_mutation(equation: Equation, rng: np.random.Generator) -> Equation:
    """The equation with one node grown, shrunk or replaced, each as often as the others; a leaf that should shrink is
    replaced. The root stays. The result may still hold.

    >>> import numpy as np
    >>> equation = Equation.parse("sin(x) = 1/csc(x)")
    >>> single_mutation(equation, np.random.default_rng(0)) != equation
    True
    """
    node = int(rng.integers(1, equation.size))
    subtree = equation.subtree(node)
    change = _pick((_grown, _shrunk, _replaced), rng)
    return equation.replace(node, change(subtree, equation, rng))


def constant(rng: np.random.Generator, other_than: str = "") -> Expression:
    """A random constant leaf of a class other than the one named."""
    kind = _pick([kind for kind in CONSTANTS if kind != other_than], rng)
    return Expression.leaf(kind, _pick(CONSTANTS[kind], rng))


def variables_of(expression: Expression) -> list[str]:
    """The variables of an expression, in order of first occurrence."""
    return list(dict.fromkeys(text for _, kind, text in expression.leaves() if kind == "Symbol"))


def fresh(used: Sequence[str], rng: np.random.Generator) -> str:
    """The first variable that is not used, or any of them when all are."""
    return next((name for name in VARIABLES if name not in used), _pick(VARIABLES, rng))


def _grown(subtree: Expression, equation: Expression, rng: np.random.Generator) -> Expression:
    if rng.random() < 0.5:
        return Expression.node(_pick(UNARY, rng), subtree)
    variables = variables_of(equation)
    is_variable = bool(variables) and rng.random() < 0.5
    operand = Expression.leaf("Symbol", _pick(variables, rng)) if is_variable else constant(rng)
    return Expression.node(_pick(BINARY, rng), subtree, operand)


def _shrunk(subtree: Expression, equation: Expression, rng: np.random.Generator) -> Expression:
    if subtree.size == 1:
        return _replaced(subtree, equation, rng)
    return subtree.subtree(_pick(subtree.children(0), rng))


def _replaced(subtree: Expression, equation: Expression, rng: np.random.Generator) -> Expression:
    name = subtree.names[0]
    if name == "Symbol":
        variables = variables_of(equation)
        others = [other for other in variables if other != subtree.texts[0]] or [fresh(variables, rng)]
        return Expression.leaf("Symbol", _pick(others, rng))
    if subtree.size == 1:
        return constant(rng, other_than=name)
    alike = UNARY if MATH[name].arity == 1 else BINARY
    children = [subtree.subtree(child) for child in subtree.children(0)]
    return Expression.node(_pick([other for other in alike if other != name], rng), *children)


def _pick(options: Sequence[Option], rng: np.random.Generator) -> Option:
    return options[int(rng.integers(len(options)))]
