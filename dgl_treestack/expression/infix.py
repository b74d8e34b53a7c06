"""Infix text, read and written.

Reading is `ast.parse` with a whitelist: nothing of the text is ever evaluated. Encodings are the papers':

    a - b    Add(a, Mul(-1, b))          -a       Mul(-1, a), and -1 is the leaf NegativeOne
    a / b    Mul(a, Pow(b, -1))          1 / a    Pow(a, -1)
    sqrt(a)  Pow(a, Half)                ln(a)    log(a, E), the same as log(a)
    a ^ b    a ** b                      a == b   a = b

`1` is an Integer, `1.29` a Number, `pi E oo nan one half _` are the constants and the blank, `I` is `sqrt(-1)`. A leaf with
no short form is written with its class: `Rational(2/5)`, `Integer(-2)`, `Float(0.7)`, `Symbol(pi)`. `write` chooses parentheses
so that reading what it wrote gives the same tree again.
"""

import ast
import keyword
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.operators import GREEK, LEAF_CLASSES, MATH, Node, check_leaf, operands

if TYPE_CHECKING:
    from dgl_treestack.expression.tree import Expression

MAX_CHARACTERS = 20_000

_SHORT = {"Pi": "pi", "Exp1": "E", "Infinity": "oo", "NaN": "nan", "One": "one", "Half": "half", "Blank": "_"}
CONSTANTS = {**{text: kind for kind, text in _SHORT.items()}, "e": "Exp1"}
_NAMES = [operator.name for operator in MATH.operators if not operator.symbol]
_ALIASES = {"arc" + name[1:]: name for name in _NAMES if name.startswith("a")}
_CALLABLE = [*_NAMES, *_ALIASES, "Add", "Mul", "Pow", "sqrt", "ln"]
RESERVED = {*CONSTANTS, *_CALLABLE, "I"}

_MINUS_ONE: Node = ("NegativeOne", "-1", 0)
_HALF: Node = ("Half", "1/2", 0)
_REFUSED = re.compile(rf"[^\s!-~{GREEK}]|#|\\")
# A single `=` only: Python or the whitelist refuses `<=`, `!=` and `:=`, and its message names them as they stand.
_REPLACED = re.compile(r"\s|\^|(?<![=<>!:])=(?!=)")
_REPLACEMENTS = {"^": "**", "=": "=="}  # white space becomes a space
_BINARY = {ast.Add: "Add", ast.Mult: "Mul", ast.Pow: "Pow"}
# Operator -> its precedence and sign, and the precedences below which its operands are put in parentheses
_SIGNS = {"Equality": (0, " = ", 1, 1), "Add": (1, " + ", 1, 2), "Mul": (2, "*", 2, 3), "Pow": (4, "**", 5, 5)}

# What people write and this notation does not read: the spelling that works, or that there is none.
_CALLED = r"(?<![A-Za-z_])(?P<function>(?:a|arc)?(?:sin|cos|tan|cot|sec|csc)h?|exp|ln|log|sqrt)"
_GROUP = r"\([^()]*\)"
_OPERAND = rf"(?P<operand>{_GROUP}|\w+)"
_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_FACTORIAL = "There is no factorial; write the product."
_CALCULUS = "Sums, products, limits, derivatives and integrals are not read; write the closed form."

# A pattern in a refused text -> what to write in its place, or a sentence; a name in braces is a group of the pattern.
# The first one that is found counts, so special ones come before general ones.
_PATTERNS = (
    (r"\\frac\s*\{(?P<a>[^{}]*)\}\s*\{(?P<b>[^{}]*)\}", "({a})/({b})"),
    (r"\\sqrt\s*\{(?P<operand>[^{}]*)\}", "sqrt({operand})"),
    (r"\\(?:cdot|times)", "*"),
    (r"\\(?:sum|prod|int|lim|partial)", _CALCULUS),
    (r"\\(?:left|right)", "parentheses"),
    (rf"\\{_CALLED}", "{function}(x)"),
    (r"\\(?P<a>[A-Za-z]+)", "{a}"),
    (rf"{_CALLED}\s*(?:\^|\*\*)\s*\(?-1\)?\s*{_OPERAND}", "a{function}({operand})"),
    (rf"{_CALLED}\s*(?:\^|\*\*)\s*(?P<power>\d+)\s*{_OPERAND}", "{function}({operand})**{power}"),
    (rf"{_CALLED}\s*(?P<power>[{_DIGITS}]+)\s*{_OPERAND}", "{function}({operand})**{power}"),
    (rf"{_CALLED}\s+{_OPERAND}", "{function}({operand})"),
    (r"\|(?P<operand>[^|]*)\|", "There is no absolute value; for real values write sqrt(({operand})**2)."),
    (rf"√\s*{_OPERAND}?", "sqrt({operand})"),
    (rf"(?P<a>\w*[^\W{_DIGITS}]|{_GROUP})?(?P<power>[{_DIGITS}]+)", "{a}**{power}"),
    (r"[\w)]\s*!(?!=)", _FACTORIAL),
    (r"^\s*=|=\s*$", "A side of the equation is missing."),
    ("π", "pi"),
    ("∞", "oo"),
    ("[·×∙⋅∗]", "*"),
    ("[÷∕]", "/"),
    ("[−–—]", "-"),
    ("[≠≤≥≈≡]|!=", "An equation has one '='; there is no other relation."),
    ("[∑∏∫∂]", _CALCULUS),
    (r"[][{}]", "parentheses"),
    (rf"(?<!\w)(?P<a>{'|'.join(keyword.kwlist)})(?!\w)", "{a} is a word of Python; give the variable another name."),
    (rf"(?<![\w.])(?P<a>\d+\.?\d*)\s*(?![eE][+-]?\d)(?P<b>[^\W\d]\w*|{_GROUP}|\()", "{a}*{b}"),
    (rf"(?P<a>\w*{_GROUP}|\))\s*(?P<b>\w*{_GROUP}|\w+|\()", "{a}*{b}"),
    (r"(?<!\w)(?P<a>[^\W\d]\w*)\s+(?P<b>\w+)", "{a}*{b}"),
    (rf"(?<!\w)(?P<a>[^\W\d])\s*(?P<b>{_GROUP}|\()", "{a}*{b}"),
)

# A function that is not read -> what to write in its place.
_NOT_READ = {
    **dict.fromkeys(("abs", "Abs", "fabs"), "There is no absolute value; for real x write sqrt(x**2)."),
    **dict.fromkeys(("log10", "lg"), "Write log(x, 10)."),
    **dict.fromkeys(("log2", "lb", "ld"), "Write log(x, 2)."),
    **dict.fromkeys(("cbrt", "root"), "Write x**(1/3)."),
    **dict.fromkeys(("pow", "power"), "Write x**y."),
    **{name: f"Write {ours}(x)." for name, ours in (("tg", "tan"), ("ctg", "cot"), ("cotan", "cot"), ("cosec", "csc"))},
    **{f"ar{name}": f"Write a{name}(x)." for name in ("sinh", "cosh", "tanh", "coth", "sech", "csch")},
    **dict.fromkeys(("factorial", "gamma"), _FACTORIAL),
    **dict.fromkeys(("diff", "Derivative", "integrate", "Integral", "sum", "Sum", "prod", "lim", "limit"), _CALCULUS),
    **dict.fromkeys(("floor", "ceil", "round", "mod", "min", "max", "sign", "re", "im", "arg"), "There is no such function."),
}

_LIKE_CONSTANTS = {
    **dict.fromkeys(("i", "j", "im"), "I is the imaginary unit"),
    **dict.fromkeys(("infinity", "infty", "inf"), "oo is infinity"),
    "pi": "pi is the number",
}
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa mu nu xi omicron rho sigma tau upsilon phi chi psi omega"


def read(text: str) -> list[Node]:
    """The nodes of an infix text, in pre-order. Raises ExpressionError that points at the column."""
    column, fault = None, ""
    # The Python source: `=` as `==`, `^` as `**`
    source = _REPLACED.sub(lambda found: _REPLACEMENTS.get(found[0], " "), text).strip()
    if len(text) > MAX_CHARACTERS:
        fault = f"The text has {len(text)} characters, at most {MAX_CHARACTERS} are read. Give a large tree in prefix form."
    elif refused := _REFUSED.search(text):
        column = refused.start() + 1
        remedy = hint(text) or " Use letters of the Latin and Greek alphabets, digits, and + - * / **."
        fault = f"Unexpected character {refused[0]!r}.{remedy}"
        if refused[0] == "#":  # Python would drop the rest as a comment
            fault = "'#' is not part of an expression. Take it and the remark out."
    elif not source:
        fault = "The text is empty. Write an equation such as sin(x)**2 + cos(x)**2 = 1."
    else:
        try:
            # `ast` builds syntax trees only: 9**9**9**9 is read, and not computed.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "1if" and the like; the whitelist refuses them anyway
                syntax = ast.parse(source, mode="eval").body
            if isinstance(syntax, ast.Compare) and (len(syntax.ops) > 1 or not isinstance(syntax.ops[0], ast.Eq)):
                column = _column(text, syntax.comparators[-1].col_offset)
                fault = "An equation has exactly one '=' and no other comparison."
        except SyntaxError as error:
            offset = (error.offset or 0) - 1  # in characters; Python reports an unexpected end with offset 0
            column = _column(text, offset if offset < 0 else len(source[:offset].encode()))
            fault = f"Not an expression: {error.msg}.{hint(text)}"
        except (RecursionError, MemoryError):
            fault = "The text nests too deeply for the infix form. Give it in prefix form."
    if fault:
        raise ExpressionError(fault, text, column)
    encoded = source.encode()  # positions of `ast` count bytes
    nodes: list[Node] = []
    pending: list[Node | ast.expr] = [syntax]
    if isinstance(syntax, ast.Compare):
        nodes, pending = [("Equality", None, 2)], [syntax.comparators[0], syntax.left]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            nodes.append(item)
            continue
        try:
            pending.extend(reversed(_expand(item, encoded)))
        except ExpressionError as error:
            remedy = "" if isinstance(item, ast.Constant) else hint(text)
            raise ExpressionError(f"{error}{remedy}", text, _column(text, item.col_offset)) from None
    return nodes


def _column(text: str, offset: int) -> int:
    """The column, from 1 on, of the character at an offset in bytes of a text's Python source; for -1 that after its end."""
    # Counted for errors only, so that a regular expression alone prepares a text without one.
    doubled = {found.start() for found in _REPLACED.finditer(text) if found[0] in _REPLACEMENTS}
    start = len(text) - len(text.lstrip())
    columns = [i + 1 for i in range(start, len(text)) for _ in range(len(text[i].encode()) + (i in doubled))]
    return [*columns, len(text) + 1][min(offset, len(columns))]


def _expand(node: ast.expr, source: bytes) -> Sequence[Node | ast.expr]:
    """Replace a syntax node by nodes and syntax nodes, in pre-order. Raises ExpressionError for one outside the whitelist."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Mult() | ast.Pow() as sign, right):
            return [(_BINARY[type(sign)], None, 2), left, right]
        case ast.BinOp(left, ast.Sub(), right):
            return [("Add", None, 2), left, ("Mul", None, 2), _MINUS_ONE, right]
        case ast.BinOp(left, ast.Div(), right):
            inverse: list[Node | ast.expr] = [("Pow", None, 2), right, _MINUS_ONE]
            return inverse if _source_of(left, source) == "1" else [("Mul", None, 2), left, *inverse]
        case ast.UnaryOp(ast.UAdd(), operand):
            return [operand]
        case ast.UnaryOp(ast.USub(), operand):
            return [_MINUS_ONE] if _source_of(operand, source) == "1" else [("Mul", None, 2), _MINUS_ONE, operand]
        case ast.BinOp(op=sign) | ast.UnaryOp(op=sign):
            fault = f"The operator {type(sign).__name__} is unknown. Use + - * / **."
        case ast.Constant(value):
            text = _source_of(node, source)
            if type(value) in (int, float):
                kind = "Integer" if type(value) is int else "Number"
                check_leaf(kind, text)
                return [(kind, text, 0)]
            fault = f"{text[:40]!r} is not a number of an expression. Write 3 or 1.29."
        case ast.Name(name) if name in CONSTANTS:
            return [(CONSTANTS[name], LEAF_CLASSES[CONSTANTS[name]], 0)]
        case ast.Name("I"):
            return [("Pow", None, 2), _MINUS_ONE, _HALF]
        case ast.Name(name):
            if name not in _CALLABLE:
                return [("Symbol", name, 0)]
            fault = f"The function {name!r} needs its argument in parentheses."
        case ast.Call(ast.Name(called), arguments, []) if not any(isinstance(a, ast.Starred) for a in arguments):
            name, count = _ALIASES.get(called, called), len(arguments)
            if name in LEAF_CLASSES and count == 1:
                text = _source_of(arguments[0], source)
                check_leaf(name, text)
                return [(name, text, 0)]
            if name == "sqrt" and count == 1:
                return [("Pow", None, 2), *arguments, _HALF]
            if name in ("ln", "log") and count == 1:
                return [("log", None, 2), *arguments, ("Exp1", "E", 0)]
            if name in LEAF_CLASSES:
                fault = f"{name} takes the text of one leaf, as in Rational(2/5)."
            elif name not in MATH or name == MATH.root:
                of_letter = f"Unknown function {name!r}." if len(name) == 1 else ""
                fault = of_letter or _NOT_READ.get(name) or unknown("function", name, _CALLABLE)
            elif count == MATH[name].arity:
                return [(name, None, count), *arguments]
            else:
                fault = f"{name!r} takes {operands([MATH[name].arity])}, found {count}."
        case ast.Call():
            fault = "Only calls such as sin(x) are allowed."
        case _:
            fault = f"{type(node).__name__} is not part of an expression. Use + - * / ** and functions."
    raise ExpressionError(fault)


def _source_of(node: ast.expr, source: bytes) -> str:
    """The source of a syntax node without spaces."""
    return source[node.col_offset : node.end_col_offset].decode().replace(" ", "")


def write(tree: "Expression") -> str:
    """Infix text that `read` turns back into the same tree."""
    output: list[str] = []
    pending: list = [(0, 0)]  # a text, or (node, precedence below which it is put in parentheses)
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            output.append(item)
            continue
        node, required = item
        precedence, parts = _layout(tree, node)
        pending.extend(reversed(["(", *parts, ")"] if precedence < required else parts))
    return "".join(output)


def _layout(tree: "Expression", node: int) -> tuple[int, list]:
    """The precedence of a node (3 a sign, 5 leaves, calls and parentheses; others in `_SIGNS`), and its parts, as `pending`."""
    names, name, children = tree.names, tree.names[node], tree.children(node)
    if name == "NegativeOne":
        return 3, ["-1"]
    if name in _SHORT:
        return 5, [_SHORT[name]]
    if not children:
        text = tree.texts[node] or ""
        is_plain = {"Integer": text.isdigit(), "Symbol": text not in RESERVED and text not in LEAF_CLASSES}
        is_plain["Number"] = re.fullmatch(r"[0-9]+\.[0-9]*|\.[0-9]+", text) is not None
        return 5, [text if is_plain.get(name) else f"{name}({text})"]
    if name not in _SIGNS:
        parts = [part for child in children for part in (", ", (child, 1))]
        return 5, [name, "(", *parts[1:], ")"]
    left, right = children
    operand, inner = names[right], tree.children(right)
    is_one = [(names[child], tree.texts[child]) == ("Integer", "1") for child in children]
    if name == "Add" and operand == "Mul" and names[inner[0]] == "NegativeOne":
        return 1, [(left, 1), " - ", (inner[1], 2)]
    if name == "Pow" and operand == "Half":
        return 5, ["sqrt(", (left, 1), ")"]
    if name == "Pow" and operand == "NegativeOne":
        return 2, ["1/", (left, 3)]
    if name == "Mul" and names[left] == "NegativeOne" and not is_one[1]:
        return 3, ["-", (right, 3)]
    if name == "Mul" and operand == "Pow" and names[inner[1]] == "NegativeOne" and not is_one[0]:
        return 2, [(left, 2), "/", (inner[0], 3)]
    precedence, sign, of_left, of_right = _SIGNS[name]
    return precedence, [(left, of_left), sign, (right, of_right)]


def hint(text: str) -> str:
    """Return what to write in place of something in a text that was refused, with a space before it, or ''."""
    for pattern, remedy in _PATTERNS:
        if match := re.search(pattern, text):
            groups = {name: part or "" for name, part in match.groupdict().items()}
            operand = groups.get("operand", "").removeprefix("(").removesuffix(")") or "x"
            operand = re.sub(r"^(\d+)([^\W\d])", r"\1*\2", operand)
            power = "".join(str(_DIGITS.find(digit)) if digit in _DIGITS else digit for digit in groups.get("power", ""))
            remedy = remedy.format(**{**groups, "operand": operand, "power": power})
            return f" {remedy}" if remedy.endswith(".") else f" Write {remedy} for {match[0]}."
    return ""


def remark_on_names(variables: Iterable[str]) -> str:
    """Return a line on the names that were read as variables, if one of them looks like a constant or a product, else ''."""
    names, words = sorted(set(variables)), {*_LIKE_CONSTANTS, *_GREEK.split()}
    meanings = [_LIKE_CONSTANTS[name.lower()] for name in names if name.lower() in _LIKE_CONSTANTS]
    long_names = [name for name in names if len(name) > 1 and name.isalpha() and name.lower() not in words]
    if long_names:
        called = re.fullmatch(rf"{_CALLED}(\w+)", long_names[0])
        meanings.append(f"a call is written {called[1]}({called[2]})" if called else f"a product {'*'.join(long_names[0])}")
    return f"Read as variables: {', '.join(names)}; {', '.join(dict.fromkeys(meanings))}." if meanings else ""
