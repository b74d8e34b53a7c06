"""Leaves: their classes, the texts they may have, and the exact values of the numbers among them.

A number's text is plain ASCII without leading zeros, so that it means the same here, in Python and in SymPy:

    Integer   3, -2                Rational        2/5, -1/2, 0
    Float     0.7, -2.5, 3.        Number          the same as Float: 1.29, 2, 1e-5

It has at most `MAX_CHARACTERS` characters: `truth` takes values within 1e-33 as equal, and more digits could differ by less.
"""

import keyword
import re
from fractions import Fraction
from functools import lru_cache

from dgl_treestack.errors import ExpressionError

MAX_CHARACTERS = 30

# Leaf class -> its fixed text, or None for a class whose leaves differ in their text.
LEAF_CLASSES: dict[str, str | None] = {
    "Symbol": None,
    "Integer": None,
    "Rational": None,
    "Float": None,
    "Number": None,
    "NegativeOne": "-1",
    "NaN": "nan",
    "Infinity": "oo",
    "Exp1": "E",
    "Pi": "pi",
    "One": "1",
    "Half": "1/2",
    "Blank": "_",
}

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


@lru_cache(maxsize=4096)  # the same few leaves are read over and over
def check_leaf(kind: str, text: str | None) -> None:
    """Raise ExpressionError unless `text` can be the text of a leaf of class `kind`."""
    if not text or any(character.isspace() for character in text):
        raise ExpressionError(f"A leaf of class {kind!r} needs a text without spaces, found {_shortened(text)}.")
    fixed = LEAF_CLASSES[kind]
    if fixed is not None:
        if text != fixed:
            raise ExpressionError(f"A leaf of class {kind!r} has the text {fixed!r}, found {_shortened(text)}. Leave it out.")
    elif kind == "Symbol":
        if not (text.isascii() and text.isidentifier()) or keyword.iskeyword(text):
            raise ExpressionError(
                f"{_shortened(text)} cannot name a variable. Use letters, digits and '_', not a Python keyword."
            )
    else:
        number_value(text, kind)


@lru_cache(maxsize=4096)
def number_value(text: str, kind: str = "") -> Fraction:
    """The exact value of a number's text: `3`, `-2`, `2/5`, `1.29`. kind: the leaf class whose notation is required.

    Raises ExpressionError.
    """
    pattern, examples = _NUMBERS[kind]
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(
            f"The number {_shortened(text)} is too long: {len(text)} characters, at most {MAX_CHARACTERS} are read. Round it."
        )
    if not pattern.fullmatch(text):
        raise ExpressionError(f"{text!r} is not a number{kind and f' of class {kind!r}'}. Write {examples}.")
    value = Fraction(text)
    if abs(value) >= 10**300:
        raise ExpressionError(f"The number {text!r} is too large; its magnitude must be below 1e300.")
    return value


def leaf_value(kind: str, text: str) -> Fraction | None:
    """The exact rational value of a leaf, None for symbols, pi, E, infinity, NaN and the blank."""
    if kind in _NUMBERS or kind in ("NegativeOne", "One", "Half"):
        return number_value(text)
    return None


def _shortened(text: str | None) -> str:
    """The text in quotes, cut to the length of the longest leaf."""
    return repr(text) if text is None or len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]!r}..."
