"""Operators and leaves: the names that the nodes of an expression may have, and the texts of its leaves.

A `Signature` is a table of operators by name. Weights, files and checkpoints refer to an operator by its name, never by
its position. `MATH` is the signature of the papers: 25 unary functions, `Add`, `Mul`, `Pow`, `log` (argument, base) and
the root `Equality`. Another domain defines its own signature.

A signature has the leaf classes of mathematics, or the one class `Word`, whose text is any text. A number's text is plain
ASCII without leading zeros, so that it has the same meaning here, in Python and in SymPy:

    Integer   3, -2                Rational        2/5, -1/2, 0
    Float     0.7, -2.5, 3.        Number          the same as Float: 1.29, 2, 1e-5

It has at most `MAX_CHARACTERS` characters: `judge` tells values apart that differ by 1e-347. `judge_at_fixed_points`,
which treats values within 1e-33 as equal, is for equations that are generated, whose numbers are short.
"""

import keyword
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any

from dgl_treestack.errors import ExpressionError, unknown

UNKNOWN = "-"  # an unknown label in a file of trees, which no class may be called
WITHOUT_OPERATORS = ("plain", "labelled")  # notations whose brackets name no operator
Label = int | float | str | None  # of a tree or of a node
Node = tuple[str, str | None, int]  # operator or leaf class, text of a leaf, number of children


@dataclass(frozen=True)
class Operator:
    """One operator.

    name: its name in weights, files and checkpoints. In a language that splits an operator by its number of children, such as
    `MAX/3`; the text before the slash is its word in texts.
    arity: number of children, or None for any number from one on.
    symbol: the infix sign between two children (`+`), or empty for an operator that is printed as a function call.
    value: complex NumPy arrays of the children's values -> array of the operator's value (principal branch), or None.
    """

    name: str
    arity: int | None
    symbol: str = ""
    value: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @property
    def word(self) -> str:
        """How the operator is called in texts."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Signature:
    """The operators of a domain, by name, and its leaf classes.

    root: the name of the operator that relates two sides, if there is one. words: whether leaves are of the class `Word`, any
    text, instead of the classes of mathematics. notation: of texts: `infix`, or one of `expression.notations`. classes: names
    of the labels, for classification; none if labels are 0 and 1. class_of_label: pairs of another label that files may have
    and its class, or `UNKNOWN`. numeric: whether labels are numbers, for regression.
    leaf_value: (text, index of a point) -> value of a leaf there, for signals at nodes in a language of words.
    """

    name: str
    operators: tuple[Operator, ...]
    root: str | None = None
    words: bool = False
    notation: str = "prefix"
    classes: tuple[str, ...] = ()
    class_of_label: tuple[tuple[str, str], ...] = ()
    numeric: bool = False
    leaf_value: Callable[[str, int], complex] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the operators, in order."""
        return tuple(operator.name for operator in self.operators)

    @cached_property
    def index(self) -> dict[str, int]:
        """Operator name -> index in `operators`, which batches use. Never written to a file."""
        return {operator.name: i for i, operator in enumerate(self.operators)}

    @cached_property
    def root_index(self) -> int:
        """The index of the root's operator; without a root -2, which is the operator of no node (-1 is that of leaves)."""
        return -2 if self.root is None else self.index[self.root]

    @cached_property
    def inner(self) -> tuple[Operator, ...]:
        """The operators that a cell has parameters for: all but the root."""
        return tuple(operator for operator in self.operators if operator.name != self.root)

    @property
    def leaf_classes(self) -> Mapping[str, str | None]:
        """Leaf class -> its fixed text, or None for a class whose leaves differ in their text."""
        return WORDS if self.words else LEAF_CLASSES

    @cached_property
    def by_arity(self) -> dict[int | None, str]:
        """Number of children, None for any -> name of an operator that is not the root."""
        return {operator.arity: operator.name for operator in self.inner}

    @cached_property
    def by_word(self) -> dict[str, dict[int | None, Operator]]:
        """Word in texts -> number of children, None for any -> operator."""
        table: dict[str, dict[int | None, Operator]] = {}
        for operator in self.operators:
            table.setdefault(operator.word, {})[operator.arity] = operator
        return table

    def __getitem__(self, name: str) -> Operator:
        try:
            return self.operators[self.index[name]]
        except KeyError:
            raise ExpressionError(unknown("operator", name, self.index)) from None

    def __contains__(self, name: object) -> bool:
        return name in self.index


def _value(function: str, *arguments: Any) -> Any:
    """The value of a function of NumPy; of `log`, to a base. `1/f` is its reciprocal, `f 1/x` that of the reciprocal."""
    import numpy as np  # not above: to read a text, nobody should wait for it

    if function == "log":
        return np.log(arguments[0]) / np.log(arguments[1])
    if function.endswith(" 1/x"):
        return getattr(np, function.removesuffix(" 1/x"))(1 / arguments[0])
    if function.startswith("1/"):
        return 1 / getattr(np, function.removeprefix("1/"))(arguments[0])
    return getattr(np, function)(*arguments)


_UNARY = {
    **{"sin": "sin", "cos": "cos", "csc": "1/sin", "sec": "1/cos", "tan": "tan", "cot": "1/tan"},
    **{"asin": "arcsin", "acos": "arccos", "acsc": "arcsin 1/x", "asec": "arccos 1/x", "atan": "arctan", "acot": "arctan 1/x"},
    **{"sinh": "sinh", "cosh": "cosh", "csch": "1/sinh", "sech": "1/cosh", "tanh": "tanh", "coth": "1/tanh"},
    **{"asinh": "arcsinh", "acosh": "arccosh", "acsch": "arcsinh 1/x", "asech": "arccosh 1/x"},
    **{"atanh": "arctanh", "acoth": "arctanh 1/x", "exp": "exp"},
}

# A partial function, unlike a lambda, can be pickled: processes send each other objects with a signature.
MATH = Signature(
    name="math",
    operators=(
        *(Operator(name, 1, value=partial(_value, function)) for name, function in _UNARY.items()),
        Operator("Add", 2, "+", partial(_value, "add")),
        Operator("Mul", 2, "*", partial(_value, "multiply")),
        Operator("Pow", 2, "**", partial(_value, "power")),
        Operator("log", 2, value=partial(_value, "log")),
        Operator("Equality", 2, "="),
    ),
    root="Equality",
    notation="infix",
)

MAX_CHARACTERS = 300
GREEK = "Α-Ωα-ορ-ωϑϕϱϵ"  # letters that name variables, besides ASCII; pi is a constant

# Leaf class -> its fixed text, or None for a class whose leaves differ in their text.
LEAF_CLASSES: dict[str, str | None] = {
    **dict.fromkeys(("Symbol", "Integer", "Rational", "Float", "Number")),
    "NegativeOne": "-1",
    "NaN": "nan",
    "Infinity": "oo",
    "Exp1": "E",
    "Pi": "pi",
    "One": "1",
    "Half": "1/2",
    "Blank": "_",
}
WORDS: dict[str, str | None] = {"Word": None}  # the leaf classes of a signature of words

# Strict, as Python's int() also reads 1_0, and digits of other scripts.
_INTEGER = r"(?:0|[1-9][0-9]*)"
_DECIMAL = rf"[+-]?(?:{_INTEGER}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{{1,3}})?"
_RATIONAL = rf"-?{_INTEGER}(?:/[1-9][0-9]*)?"
# Leaf class -> the pattern of its numbers, and examples for the message; "" stands for any of these classes.
_NUMBERS: dict[str, tuple[re.Pattern[str], str]] = {
    "": (re.compile(f"{_RATIONAL}|{_DECIMAL}"), "3, -2, 2/5 or 1.29"),
    "Integer": (re.compile(rf"-?{_INTEGER}"), "3 or -2"),
    "Rational": (re.compile(_RATIONAL), "2/5, -1/2 or 0"),
    "Float": (re.compile(_DECIMAL), "0.7, -2.5 or 1e-5"),
    "Number": (re.compile(_DECIMAL), "1.29, -0.3 or 1e-5"),
}
_NAME = re.compile(rf"[A-Za-z_{GREEK}][A-Za-z0-9_{GREEK}]*")
_SHOWN = 30  # characters of a text in a message


@lru_cache(maxsize=4096)  # few distinct leaves are read many times
def check_leaf(kind: str, text: str | None) -> None:
    """Raise ExpressionError unless `text` can be the text of a leaf of class `kind`."""
    fault = ""
    if not text:
        fault = f"A leaf of class {kind!r} needs a text, found {text!r}."
    elif kind in WORDS:
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            fault = f"The text {text!a} has half of a character, which no file can hold. Write the whole one."
    elif any(character.isspace() for character in text):
        fault = f"A leaf of class {kind!r} needs a text without spaces, found {_shortened(text)}."
    elif kind == "Symbol":
        if not _NAME.fullmatch(text) or keyword.iskeyword(text):
            fault = f"{_shortened(text)} cannot name a variable. Use letters, digits and '_', not a Python keyword."
    elif fixed := LEAF_CLASSES[kind]:
        if text != fixed:
            fault = f"A leaf of class {kind!r} has the text {fixed!r}, found {_shortened(text)}. Leave it out."
    else:
        number_value(text, kind)
    if fault:
        raise ExpressionError(fault)


@lru_cache(maxsize=4096)
def number_value(text: str, kind: str = "") -> Fraction:
    """The exact value of a number's text: `3`, `-2`, `2/5`, `1.29`. kind: the leaf class whose notation is required.

    Raises ExpressionError.
    """
    pattern, examples = _NUMBERS[kind]
    if len(text) > MAX_CHARACTERS:
        fault = (
            f"The number {_shortened(text)} is too long: {len(text)} characters, at most {MAX_CHARACTERS} are read. Round it."
        )
    elif not pattern.fullmatch(text):
        fault = f"{text!r} is not a number{kind and f' of class {kind!r}'}. Write {examples}."
    elif abs(value := Fraction(text)) >= 10**300:  # a float ends at 1.8e308
        fault = f"The number {text!r} is too large; its magnitude must be below 1e300."
    else:
        return value
    raise ExpressionError(fault)


def leaf_value(kind: str, text: str) -> Fraction | None:
    """The exact rational value of a leaf, None for symbols, pi, E, infinity, NaN and the blank."""
    if kind in _NUMBERS or kind in ("NegativeOne", "One", "Half"):
        return number_value(text)
    return None


def operands(arities: Collection[int | None]) -> str:
    """How many operands an operator takes in words: one of these numbers, or from None any."""
    numbers = sorted(arity for arity in arities if arity is not None)
    if len(numbers) < len(arities):
        return "at least one operand"
    return f"{' or '.join(map(str, numbers))} operand{'s' * (numbers != [1])}"


def _shortened(text: str) -> str:
    """The text in quotes, cut to what a message shows."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
