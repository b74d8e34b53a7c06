"""Bracketed text of trees: an operator and its children in brackets, leaves as words, for trees of any depth.

    brackets    (MAX 2 9 (MIN 4 7) "it's 0")
    lists       [MAX 2 9 [MIN 4 7 ] 0 ]          ListOps (Nangia & Bowman 2018); its binary brackets ( ) are skipped

A word with spaces, brackets or quotation marks is a JSON string.
"""

import json
import re
from collections.abc import Sequence

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.operators import Node, Signature

NOTATIONS = {"brackets": ("(", ")"), "lists": ("[", "]")}
_TOKEN = re.compile(r'\s*(?:([()\[\]])|("(?:[^"\\]|\\.)*")|([^\s()\[\]"]+))')
_PLAIN = re.compile(r'[^\s()\[\]"\\\x00-\x1f\x7f]+')


def read(text: str, signature: Signature) -> list[Node]:
    """The nodes of a text in the notation of a signature. Raises ExpressionError that points at the column."""
    opening, closing = NOTATIONS[signature.notation]
    nodes: list[Node] = []
    open_nodes: list[int] = []  # indices of operators whose brackets are open
    arities: list[int] = []  # their children so far
    position, end, expects_operator = 0, len(text.rstrip()), False
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError("This quotation mark has no partner.", text, text.index('"', position) + 1)
        bracket, quoted, word = match.groups()
        column, position = match.start(match.lastindex or 0) + 1, match.end()
        if bracket and bracket not in (opening, closing) and signature.notation == "lists":
            continue
        if expects_operator and not word:
            raise ExpressionError(f"An operator follows {opening!r}. Known: {', '.join(signature.names)}.", text, column)
        if bracket == opening:
            expects_operator = True
            continue
        if bracket == closing and not nodes:
            raise ExpressionError(f"{closing!r} closes nothing. Remove it.", text, column)
        if nodes and not open_nodes:
            raise ExpressionError("The tree is complete before this. Write one tree.", text, column)
        if bracket == closing:
            if not arities[-1]:
                raise ExpressionError(f"{nodes[-1][0]!r} has no children. Give it at least one.", text, column)
            node = open_nodes.pop()
            nodes[node] = (nodes[node][0], None, arities.pop())
        elif bracket:
            raise ExpressionError(f"{bracket!r} is no bracket of this notation. Write {opening} and {closing}.", text, column)
        elif expects_operator:
            if word not in signature:
                known = ", ".join(signature.names)
                raise ExpressionError(f"{word[:30]!r} is no operator of {signature.name!r}. Known: {known}.", text, column)
            if arities:
                arities[-1] += 1
            open_nodes.append(len(nodes))
            arities.append(0)
            nodes.append((word, None, 0))
            expects_operator = False
        else:
            if arities:
                arities[-1] += 1
            nodes.append(("Word", _unquoted(quoted, text, column) if quoted else word, 0))
    if open_nodes or expects_operator or not nodes:
        missing = len(open_nodes) + expects_operator
        raise ExpressionError(
            f"The text ends with {missing} bracket(s) open." if missing else "There is no tree.", text, end + 1
        )
    return nodes


def write(names: Sequence[str], texts: Sequence[str | None], arities: Sequence[int], notation: str) -> str:
    """The text of a tree in the arrays of an `Expression`."""
    opening, closing = NOTATIONS[notation]
    space_before_closing = " " if notation == "lists" else ""
    parts: list[str] = []
    missing: list[int] = []  # children that the open brackets still lack
    for name, text, arity in zip(names, texts, arities, strict=True):
        if text is None:
            parts.append(f"{opening}{name}")
            missing.append(arity)
            continue
        parts.append(text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False))
        while missing:
            missing[-1] -= 1
            if missing[-1]:
                break
            missing.pop()
            parts[-1] += space_before_closing + closing
    return " ".join(parts)


def _unquoted(quoted: str, text: str, column: int) -> str:
    """The text of a JSON string. Raises ExpressionError."""
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise ExpressionError(f"{quoted[:30]} is no quoted text. Write it as in JSON.", text, column) from None
