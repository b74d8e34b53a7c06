"""SymPy objects, read and written without evaluation or simplification.

SymPy walks trees recursively, so their depth is limited to `MAX_DEPTH`. It has one object per number: a leaf `One` is read back
as `Integer 1`, and `Rational`, `Half` and `NegativeOne` by value.
"""

from typing import TYPE_CHECKING, Any

import sympy

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.operators import LEAF_CLASSES, MATH, MAX_CHARACTERS, Node, leaf_value

if TYPE_CHECKING:
    from dgl_treestack.expression.tree import Expression

MAX_DEPTH = 100

_CLASSES: dict[str, Any] = {name: getattr(sympy, name) for name in MATH.names}  # SymPy calls them as the papers do
_CONSTANTS: dict[str, Any] = {"Pi": sympy.pi, "Exp1": sympy.E, "Infinity": sympy.oo, "NaN": sympy.nan}
_BLANK = sympy.Symbol("_")


def write(tree: "Expression") -> sympy.Basic:
    """The unevaluated SymPy object of a tree. Raises ExpressionError beyond depth 100."""
    if tree.depth > MAX_DEPTH:
        raise ExpressionError(f"SymPy cannot hold a tree of depth {tree.depth}; the limit is {MAX_DEPTH}.")
    built: list[Any] = []  # objects that have no parent yet, from right to left
    for name, text, arity in reversed(list(tree.nodes)):
        if text is None:
            built.append(_CLASSES[name](*(built.pop() for _ in range(arity)), evaluate=False))
        elif name in ("Symbol", "Blank"):
            built.append(sympy.Symbol(text))
        elif name in ("Float", "Number"):
            built.append(sympy.Float(text, ""))
        else:
            value = leaf_value(name, text)
            built.append(_CONSTANTS[name] if value is None else sympy.Rational(value.numerator, value.denominator))
    return built[0]


def read(value: sympy.Basic) -> list[Node]:
    """The nodes, in pre-order, of a SymPy object; sums and products of more than two nest to the right.

    Raises ExpressionError for a function outside the signature and for a number longer than a leaf may be.
    """
    nodes: list[Node] = []
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            nodes.append(item)
            continue
        name, fault = type(item).__name__, ""
        leaf, constant = None, next((kind for kind, value_of_kind in _CONSTANTS.items() if item is value_of_kind), "")
        try:
            if constant:
                leaf = constant, LEAF_CLASSES[constant] or ""
            elif isinstance(item, sympy.Symbol):
                leaf = ("Blank", "_") if item == _BLANK else ("Symbol", item.name)
            elif isinstance(item, sympy.Float):
                leaf = "Number", str(item)
            elif isinstance(item, sympy.Integer):
                leaf = ("NegativeOne", "-1") if item == -1 else ("Integer", str(item))
            elif isinstance(item, sympy.Rational):
                leaf = ("Half", "1/2") if item == sympy.S.Half else ("Rational", str(item))
        except ValueError:  # Python prints no integer beyond sys.get_int_max_str_digits()
            fault = f"The {name} has too many digits to be printed; a leaf holds {MAX_CHARACTERS} characters. Round it."
        if leaf:
            nodes.append((*leaf, 0))
            continue
        if fault or name not in _CLASSES:
            raise ExpressionError(fault or unknown("SymPy function", name, _CLASSES))
        if name in ("Add", "Mul"):
            expanded = [part for argument in item.args[:-1] for part in ((name, None, 2), argument)] + [item.args[-1]]
        elif name == "log" and len(item.args) == 1:
            expanded = [("log", None, 2), item.args[0], sympy.E]
        else:
            expanded = [(name, None, len(item.args)), *item.args]
        pending.extend(reversed(expanded))
    return nodes
