"""Infix text, read and written.

Reading is `ast.parse` with a whitelist: nothing of the text is ever evaluated. Encodings are the papers':

    a - b    Add(a, Mul(-1, b))          -a       Mul(-1, a), and -1 is the leaf NegativeOne
    a / b    Mul(a, Pow(b, -1))          1 / a    Pow(a, -1)
    sqrt(a)  Pow(a, Half)                ln(a)    log(a, E), the same as log(a)
    a ^ b    a ** b                      a == b   a = b

`1` is an Integer, `1.29` a Number, `pi E oo nan one half _` are the constants and the blank. A leaf that has no short form
is written with its class: `Rational(2/5)`, `Integer(-2)`, `Float(0.7)`, `Symbol(pi)`. `write` chooses parentheses so that
reading what it wrote gives the same tree again.
"""

import ast
import re
import warnings
from collections.abc import Sequence

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.flat_tree import FlatTree, Node
from dgl_treestack.expression.leaves import LEAF_CLASSES, check_leaf
from dgl_treestack.expression.operators import MATH

MAX_CHARACTERS = 20_000

CONSTANTS = {
    "pi": "Pi",
    "E": "Exp1",
    "e": "Exp1",
    "oo": "Infinity",
    "nan": "NaN",
    "one": "One",
    "half": "Half",
    "_": "Blank",
}
_FUNCTIONS = [operator.name for operator in MATH.operators if not operator.symbol]
_ALIASES = {"arc" + name[1:]: name for name in _FUNCTIONS if name.startswith("a")}
_CALLABLE = [*_FUNCTIONS, *_ALIASES, "Add", "Mul", "Pow", "sqrt", "ln"]
RESERVED = {*CONSTANTS, *_CALLABLE}

_MINUS_ONE = ("NegativeOne", "-1", 0)
_BINARY = {ast.Add: "Add", ast.Mult: "Mul", ast.Pow: "Pow"}


def read(text: str) -> list[Node]:
    """The nodes of an infix text, in pre-order. Raises ExpressionError that points at the column."""
    source, columns = _to_python(text)
    return _Reader(text, source, columns).read()


def _to_python(text: str) -> tuple[str, list[int]]:
    """The text with `=` as `==` and `^` as `**`, and for each character the column (from 1) it came from."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(
            f"The text has {len(text)} characters, at most {MAX_CHARACTERS} are read. Give a large tree in prefix form."
        )
    source, columns = "", []
    for i, character in enumerate(text):
        if not (character.isascii() and character.isprintable()) and not character.isspace():
            raise ExpressionError(f"Unexpected character {character!r}; use plain ASCII.", text, i + 1)
        if character == "#":  # Python would drop the rest as a comment
            raise ExpressionError("'#' is not part of an expression. Take it and the remark out.", text, i + 1)
        replacement = " " if character.isspace() else "**" if character == "^" else character
        if character == "=" and "=" not in (text[i - 1 : i], text[i + 1 : i + 2]) and text[i - 1 : i] not in tuple("<>!:"):
            replacement = "=="
        source += replacement
        columns += [i + 1] * len(replacement)
    lead = len(source) - len(source.lstrip())
    return source.strip(), [*columns[lead:], len(text) + 1]


class _Reader:
    def __init__(self, text: str, source: str, columns: list[int]):
        self.text, self.source, self.columns = text, source, columns

    def read(self) -> list[Node]:
        nodes: list[Node] = []
        pending: list = [self._equation(self._parse())]
        while pending:
            item = pending.pop()
            if isinstance(item, list):
                pending.extend(reversed(item))
            elif isinstance(item, tuple):
                nodes.append(item)
            else:
                pending.extend(reversed(self._expand(item)))
        return nodes

    def _parse(self) -> ast.expr:
        if not self.source:
            raise ExpressionError("The text is empty. Write an equation such as sin(x)**2 + cos(x)**2 = 1.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "1if" and the like; the whitelist refuses them anyway
                return ast.parse(self.source, mode="eval").body
        except SyntaxError as error:
            # Python reports an unexpected end with offset 0
            place = error.offset - 1 if error.offset else len(self.columns) - 1
            column = self.columns[min(place, len(self.columns) - 1)]
            raise ExpressionError(f"Not an expression: {error.msg}.", self.text, column) from None
        except (RecursionError, MemoryError):
            raise ExpressionError("The text nests too deeply for the infix form. Give it in prefix form.") from None

    def _error(self, message: str, node: ast.expr) -> ExpressionError:
        return ExpressionError(message, self.text, self.columns[min(node.col_offset, len(self.columns) - 1)])

    def _equation(self, node: ast.expr) -> list:
        if not isinstance(node, ast.Compare):
            return [node]
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Eq):
            raise self._error("An equation has exactly one '=' and no other comparison.", node.comparators[-1])
        return [("Equality", None, 2), node.left, node.comparators[0]]

    def _expand(self, node: ast.expr) -> Sequence:
        """The pre-order pieces of one syntax node: finished nodes, and syntax nodes still to be expanded."""
        handler = getattr(self, "_" + type(node).__name__.lower(), None)
        if handler is None:
            raise self._error(f"{type(node).__name__} is not part of an expression. Use + - * / ** and functions.", node)
        return handler(node)

    def _binop(self, node: ast.BinOp) -> Sequence:
        left, right = node.left, node.right
        if name := _BINARY.get(type(node.op)):
            return [(name, None, 2), left, right]
        if isinstance(node.op, ast.Sub):
            return [("Add", None, 2), left, ("Mul", None, 2), _MINUS_ONE, right]
        if isinstance(node.op, ast.Div):
            inverse = [("Pow", None, 2), right, _MINUS_ONE]
            return inverse if self._is_one(left) else [("Mul", None, 2), left, *inverse]
        raise self._error(f"The operator {type(node.op).__name__} is unknown. Use + - * / **.", node)

    def _unaryop(self, node: ast.UnaryOp) -> Sequence:
        if isinstance(node.op, ast.UAdd):
            return [node.operand]
        if not isinstance(node.op, ast.USub):
            raise self._error(f"The operator {type(node.op).__name__} is unknown. Use + - * / **.", node)
        return [_MINUS_ONE] if self._is_one(node.operand) else [("Mul", None, 2), _MINUS_ONE, node.operand]

    def _constant(self, node: ast.Constant) -> Sequence:
        written = self._written(node)
        kind = {int: "Integer", float: "Number"}.get(type(node.value))
        if kind is None:
            raise self._error(f"{written[:40]!r} is not a number of an expression. Write 3 or 1.29.", node)
        return self._checked(kind, written, node)

    def _name(self, node: ast.Name) -> Sequence:
        kind = CONSTANTS.get(node.id)
        if kind:
            return [(kind, LEAF_CLASSES[kind], 0)]
        if node.id in _CALLABLE:
            raise self._error(f"The function {node.id!r} needs its argument in parentheses.", node)
        return [("Symbol", node.id, 0)]

    def _call(self, node: ast.Call) -> Sequence:
        if not isinstance(node.func, ast.Name) or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self._error("Only calls such as sin(x) are allowed.", node)
        name = _ALIASES.get(node.func.id, node.func.id)
        if name in LEAF_CLASSES:
            return self._typed_leaf(name, node)
        if name == "sqrt" and len(node.args) == 1:
            return [("Pow", None, 2), node.args[0], ("Half", "1/2", 0)]
        if name in ("ln", "log") and len(node.args) == 1:
            return [("log", None, 2), node.args[0], ("Exp1", "E", 0)]
        if name not in MATH or name == MATH.root:
            raise self._error(unknown("function", name, _CALLABLE), node)
        wanted = MATH[name].arity
        if len(node.args) != wanted:
            raise self._error(f"{name!r} takes {wanted} operand(s), found {len(node.args)}.", node)
        return [(name, None, len(node.args)), *node.args]

    def _typed_leaf(self, kind: str, node: ast.Call) -> Sequence:
        if len(node.args) != 1:
            raise self._error(f"{kind} takes the text of one leaf, as in Rational(2/5).", node)
        return self._checked(kind, self._written(node.args[0]), node)

    def _checked(self, kind: str, text: str, node: ast.expr) -> Sequence:
        try:
            check_leaf(kind, text)
        except ExpressionError as error:
            raise self._error(str(error), node) from None
        return [(kind, text, 0)]

    def _written(self, node: ast.expr) -> str:
        return self.source[node.col_offset : node.end_col_offset].replace(" ", "")

    def _is_one(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and self._written(node) == "1"


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


def write(expression: FlatTree) -> str:
    """Infix text that `read` turns back into the same tree.

    Precedence: 0 equality, 1 sum, 2 product, 3 sign, 4 power, 5 everything closed.
    """
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


def _form(tree: FlatTree, i: int) -> tuple[int, list]:
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


def _is_leaf(tree: FlatTree, i: int, kind: str, text: str) -> bool:
    return tree.names[i] == kind and tree.texts[i] == text


def _sum_form(tree: FlatTree, left: int, right: int) -> tuple[int, list]:
    if tree.names[right] == "Mul":
        factor, rest = tree.children(right)
        if _is_leaf(tree, factor, "NegativeOne", "-1"):
            return 1, [(left, 1), " - ", (rest, 2)]
    return 1, [(left, 1), " + ", (right, 2)]


def _product_form(tree: FlatTree, left: int, right: int) -> tuple[int, list]:
    one = _is_leaf(tree, right, "Integer", "1")
    if _is_leaf(tree, left, "NegativeOne", "-1") and not one:
        return 3, ["-", (right, 3)]
    if tree.names[right] == "Pow" and not _is_leaf(tree, left, "Integer", "1"):
        base, exponent = tree.children(right)
        if _is_leaf(tree, exponent, "NegativeOne", "-1"):
            return 2, [(left, 2), "/", (base, 3)]
    return 2, [(left, 2), "*", (right, 3)]


def _power_form(tree: FlatTree, base: int, exponent: int) -> tuple[int, list]:
    if _is_leaf(tree, exponent, "Half", "1/2"):
        return 5, ["sqrt(", (base, 1), ")"]
    if _is_leaf(tree, exponent, "NegativeOne", "-1"):
        return 2, ["1/", (base, 3)]
    return 4, [(base, 5), "**", (exponent, 5)]


def _equality_form(tree: FlatTree, left: int, right: int) -> tuple[int, list]:
    return 0, [(left, 1), " = ", (right, 1)]


_FORMS = {"Add": _sum_form, "Mul": _product_form, "Pow": _power_form, "Equality": _equality_form}
