"""SymPy objects, read and written. Nothing is evaluated or simplified on the way.

SymPy itself walks trees recursively, so a depth of `MAX_DEPTH` is the limit here. It keeps one object per number: what was
`One` comes back as `Integer 1`, and `Rational`, `Half` and `NegativeOne` by value.
"""

from typing import Any

import sympy

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.flat_tree import FlatTree, Node
from dgl_treestack.expression.leaves import LEAF_CLASSES, MAX_CHARACTERS, leaf_value
from dgl_treestack.expression.operators import MATH

MAX_DEPTH = 100

_CLASSES = {
    **{operator.name: getattr(sympy, operator.name) for operator in MATH.operators if not operator.symbol},
    "Add": sympy.Add,
    "Mul": sympy.Mul,
    "Pow": sympy.Pow,
    "Equality": sympy.Eq,
}
_NAMES = {cls.__name__: name for name, cls in _CLASSES.items()}
_CONSTANTS: dict[str, Any] = {"Pi": sympy.pi, "Exp1": sympy.E, "Infinity": sympy.oo, "NaN": sympy.nan}
_BLANK = sympy.Symbol("_")


def write(expression: FlatTree) -> sympy.Basic:
    """The unevaluated SymPy object of a tree. Raises ExpressionError beyond depth 100."""
    if expression.depth > MAX_DEPTH:
        raise ExpressionError(f"SymPy cannot hold a tree of depth {expression.depth}; the limit is {MAX_DEPTH}.")
    built: list[Any] = [None] * expression.size
    for i in range(expression.size - 1, -1, -1):
        name, text = expression.names[i], expression.texts[i]
        if text is not None:
            built[i] = _leaf(name, text)
        else:
            built[i] = _CLASSES[name](*(built[child] for child in expression.children(i)), evaluate=False)
    return built[0]


def _leaf(kind: str, text: str) -> Any:
    if kind == "Symbol":
        return sympy.Symbol(text)
    if kind == "Blank":
        return _BLANK
    if kind in ("Float", "Number"):
        return sympy.Float(text, "")
    value = leaf_value(kind, text)
    return _CONSTANTS[kind] if value is None else sympy.Rational(value.numerator, value.denominator)


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
        leaf = _leaf_of(item)
        if leaf is None:
            pending.extend(reversed(_expand(item)))
        else:
            nodes.append((*leaf, 0))
    return nodes


def _expand(value: Any) -> list:
    name = _NAMES.get(type(value).__name__)
    if name is None:
        raise ExpressionError(unknown("SymPy function", type(value).__name__, _NAMES))
    if name == "log" and len(value.args) == 1:
        return [("log", None, 2), value.args[0], sympy.E]
    if name not in ("Add", "Mul"):
        return [(name, None, len(value.args)), *value.args]
    pieces: list = []
    for argument in value.args[:-1]:
        pieces += [(name, None, 2), argument]
    return [*pieces, value.args[-1]]


def _leaf_of(value: Any) -> tuple[str, str] | None:
    for kind, constant in _CONSTANTS.items():
        if value is constant:
            return kind, LEAF_CLASSES[kind] or ""
    if value == _BLANK:
        return "Blank", "_"
    if isinstance(value, sympy.Symbol):
        return "Symbol", value.name
    if isinstance(value, sympy.Float):
        return "Number", _printed(value)
    if isinstance(value, sympy.Integer):
        return ("NegativeOne", "-1") if value == -1 else ("Integer", _printed(value))
    if isinstance(value, sympy.Rational):
        return ("Half", "1/2") if value == sympy.S.Half else ("Rational", _printed(value))
    return None


def _printed(value: Any) -> str:
    try:
        return str(value)
    except ValueError:  # Python prints no integer beyond sys.get_int_max_str_digits()
        raise ExpressionError(
            f"The {type(value).__name__} has too many digits to be printed; a leaf holds {MAX_CHARACTERS} characters. Round it."
        ) from None
