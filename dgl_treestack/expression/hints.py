"""What people write and the infix notation does not read: the spelling that works, or that there is none."""

import keyword
import re
from collections.abc import Iterable

_FUNCTION = r"(?<![A-Za-z_])(?P<function>(?:a|arc)?(?:sin|cos|tan|cot|sec|csc)h?|exp|ln|log|sqrt)"
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
    (rf"\\{_FUNCTION}", "{function}(x)"),
    (r"\\(?P<a>[A-Za-z]+)", "{a}"),
    (rf"{_FUNCTION}\s*(?:\^|\*\*)\s*\(?-1\)?\s*{_OPERAND}", "a{function}({operand})"),
    (rf"{_FUNCTION}\s*(?:\^|\*\*)\s*(?P<power>\d+)\s*{_OPERAND}", "{function}({operand})**{power}"),
    (rf"{_FUNCTION}\s*(?P<power>[{_DIGITS}]+)\s*{_OPERAND}", "{function}({operand})**{power}"),
    (rf"{_FUNCTION}\s+{_OPERAND}", "{function}({operand})"),
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
FUNCTIONS = {
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
    names = sorted(set(variables))
    meanings = [_LIKE_CONSTANTS[name.lower()] for name in names if name.lower() in _LIKE_CONSTANTS]
    words = {*_LIKE_CONSTANTS, *_GREEK.split()}
    long_names = [name for name in names if len(name) > 1 and name.isalpha() and name.lower() not in words]
    if long_names:
        called = re.fullmatch(rf"{_FUNCTION}(\w+)", long_names[0])
        meanings.append(f"a call is written {called[1]}({called[2]})" if called else f"a product {'*'.join(long_names[0])}")
    return f"Read as variables: {', '.join(names)}; {', '.join(dict.fromkeys(meanings))}." if meanings else ""
