"""Trees to infix text, with the parentheses that `read` needs to find the same tree again.

Precedence: 0 equality, 1 sum, 2 product, 3 sign, 4 power, 5 everything closed.
"""

import re

from dgl_treestack.expression import Expression
from dgl_treestack.leaf import LEAF_CLASSES
from dgl_treestack.notation._infix_reader import RESERVED

_SHORT = {
    "NegativeOne": "-1",
    "Pi": "pi",
    "Exp1": "E",
    "Infinity": "oo",
    "NaN": "nan",
    "One": "one",
    "Half": "half",
    "Blank": "_",
}


def write(expression: Expression) -> str:
    """Infix text that `read` turns back into the same tree."""
    written: list[str] = []
    pending: list = [(0, 0)]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            written.append(item)
            continue
        node, required = item
        precedence, pieces = _form(expression, node)
        pending.extend(reversed(["(", *pieces, ")"] if precedence < required else pieces))
    return "".join(written)


def _form(tree: Expression, i: int) -> tuple[int, list]:
    """How node i is printed: its precedence and its pieces, texts or (child, precedence the child must have)."""
    name, children = tree.names[i], tree.children(i)
    if not children:
        return _leaf_form(name, tree.texts[i] or "")
    if name in _FORMS:
        return _FORMS[name](tree, *children)
    pieces: list = [name, "("]
    for child in children:
        pieces += [(child, 1), ", "]
    return 5, [*pieces[:-1], ")"]


def _leaf_form(kind: str, text: str) -> tuple[int, list]:
    if kind in _SHORT:
        return 3 if kind == "NegativeOne" else 5, [_SHORT[kind]]
    plain = {
        "Integer": text.isdigit(),
        "Number": re.fullmatch(r"[0-9]+\.[0-9]*|\.[0-9]+", text) is not None,
        "Symbol": text not in RESERVED and text not in LEAF_CLASSES,
    }
    return 5, [text if plain.get(kind) else f"{kind}({text})"]


def _is_leaf(tree: Expression, i: int, kind: str, text: str) -> bool:
    return tree.names[i] == kind and tree.texts[i] == text


def _sum_form(tree: Expression, left: int, right: int) -> tuple[int, list]:
    if tree.names[right] == "Mul":
        factor, rest = tree.children(right)
        if _is_leaf(tree, factor, "NegativeOne", "-1"):
            return 1, [(left, 1), " - ", (rest, 2)]
    return 1, [(left, 1), " + ", (right, 2)]


def _product_form(tree: Expression, left: int, right: int) -> tuple[int, list]:
    one = _is_leaf(tree, right, "Integer", "1")
    if _is_leaf(tree, left, "NegativeOne", "-1") and not one:
        return 3, ["-", (right, 3)]
    if tree.names[right] == "Pow" and not _is_leaf(tree, left, "Integer", "1"):
        base, exponent = tree.children(right)
        if _is_leaf(tree, exponent, "NegativeOne", "-1"):
            return 2, [(left, 2), "/", (base, 3)]
    return 2, [(left, 2), "*", (right, 3)]


def _power_form(tree: Expression, base: int, exponent: int) -> tuple[int, list]:
    if _is_leaf(tree, exponent, "Half", "1/2"):
        return 5, ["sqrt(", (base, 1), ")"]
    if _is_leaf(tree, exponent, "NegativeOne", "-1"):
        return 2, ["1/", (base, 3)]
    return 4, [(base, 5), "**", (exponent, 5)]


def _equality_form(tree: Expression, left: int, right: int) -> tuple[int, list]:
    return 0, [(left, 1), " = ", (right, 1)]


_FORMS = {"Add": _sum_form, "Mul": _product_form, "Pow": _power_form, "Equality": _equality_form}
