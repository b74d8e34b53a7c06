"""The papers' method for incorrect equations: one random change at one random node.

It leaks. A change adds or removes tokens on one side, and prefers functions that no correct equation has, so a random forest
that only counts tokens per side classifies four in five equations correctly. Use `corrupt` where this matters; this module is
for comparison with published figures.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from dgl_treestack.expression import Equation, Expression
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
    """Return the equation with one node grown, shrunk or replaced with equal probability; instead of shrinking, a leaf is
    replaced. The root does not change. The result may still hold.

    >>> import numpy as np
    >>> equation = Equation.parse("sin(x) = 1/csc(x)")
    >>> single_mutation(equation, np.random.default_rng(0)) != equation
    True
    """
    node = int(rng.integers(1, equation.size))
    name, subtree = equation.names[node], equation.subtree(node)
    children = [subtree.subtree(child) for child in subtree.children(0)]
    variables = list(dict.fromkeys(text for _, kind, text in equation.leaves() if kind == "Symbol"))
    change = pick(("grow", "shrink", "replace"), rng)
    if change == "grow" and rng.random() < 0.5:
        mutant = Expression.node(pick(UNARY, rng), subtree)
    elif change == "grow":
        is_variable = bool(variables) and rng.random() < 0.5
        operand = Expression.leaf("Symbol", pick(variables, rng)) if is_variable else constant(rng)
        mutant = Expression.node(pick(BINARY, rng), subtree, operand)
    elif change == "shrink" and children:
        mutant = pick(children, rng)
    elif children:
        operators = UNARY if len(children) == 1 else BINARY
        mutant = Expression.node(pick([operator for operator in operators if operator != name], rng), *children)
    elif name == "Symbol":
        options = [variable for variable in variables if variable != equation.texts[node]] or [fresh(variables, rng)]
        mutant = Expression.leaf("Symbol", pick(options, rng))
    else:
        mutant = constant(rng, other_than=name)
    return equation.replace(node, mutant)


def constant(rng: np.random.Generator, other_than: str = "") -> Expression:
    """Draw a constant leaf of a class other than the one named."""
    kind = pick([kind for kind in CONSTANTS if kind != other_than], rng)
    return Expression.leaf(kind, pick(CONSTANTS[kind], rng))


def fresh(used: Sequence[str], rng: np.random.Generator) -> str:
    """Return the first variable that is not used, or any of them if all are."""
    return next((name for name in VARIABLES if name not in used), pick(VARIABLES, rng))


def pick(options: Sequence[Option], rng: np.random.Generator) -> Option:
    """Draw one of the options uniformly."""
    return options[int(rng.integers(len(options)))]
