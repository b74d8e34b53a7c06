"""Bracketed text of trees: an operator and its children in brackets, leaves as words, for trees of any depth.

    brackets    (or (not a) "it's b")
    lists       [MAX 2 9 [MIN 4 7 ] 0 ]          ListOps (Nangia & Bowman 2018); its binary brackets ( ) are skipped

In `brackets`, an operator of two children may also stand between them, in brackets with the second one, as in the files of
Bowman, Manning & Potts 2015: `( ( not a ) ( or b ) )`. A word with spaces, brackets or quotation marks is a JSON string.
"""

import json
import re
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.operators import Node, Operator, Signature

NOTATIONS = {"brackets": ("(", ")"), "lists": ("[", "]")}
_TOKEN = re.compile(r'\s*(?:([()\[\]])|("(?:[^"\\]|\\.)*")|([^\s()\[\]"]+))')
_PLAIN = re.compile(r'[^\s()\[\]"\\\x00-\x1f\x7f]+')


@dataclass
class _Operator:
    """The word of an operator whose children are not complete: none, or the second of two."""

    word: str
    column: int
    right: deque[Node] | None = None


def read(text: str, signature: Signature) -> list[Node]:
    """The nodes of a text in the notation of a signature. Raises ExpressionError that points at the column."""
    opening, closing = NOTATIONS[signature.notation]
    # Per open bracket, its column and what has been read in it: trees, as nodes in pre-order, and operators.
    frames: list[tuple[int, list[deque[Node] | _Operator]]] = [(0, [])]
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError("This quotation mark has no partner.", text, text.index('"', position) + 1)
        bracket, quoted, word = match.groups()
        column, position = match.start(match.lastindex or 0) + 1, match.end()
        if bracket and bracket not in (opening, closing):
            if signature.notation == "lists":
                continue
            raise ExpressionError(f"{bracket!r} is no bracket of this notation. Write {opening} and {closing}.", text, column)
        if bracket != closing and len(frames) == 1 and frames[0][1]:
            raise ExpressionError("The tree is complete before this. Write one tree.", text, column)
        if bracket == opening:
            frames.append((column, []))
        elif not bracket:
            is_operator = not quoted and len(frames) > 1 and not frames[-1][1] and word in signature.by_word
            leaf: Node = ("Word", unquoted(quoted, text, column) if quoted else word, 0)
            frames[-1][1].append(_Operator(word, column) if is_operator else deque([leaf]))
        elif len(frames) == 1:
            raise ExpressionError(f"{closing!r} closes nothing. Remove it.", text, column)
        else:
            column, items = frames.pop()
            frames[-1][1].append(_close(items, signature, text, column))
    if len(frames) > 1:
        raise ExpressionError(
            f"The text ends with {len(frames) - 1} bracket(s) open. A line holds a whole tree.", text, end + 1
        )
    tree = frames[0][1][0] if frames[0][1] else None
    if tree is None:
        raise ExpressionError("There is no tree.", text, end + 1)
    if isinstance(tree, _Operator):
        raise ExpressionError(f"{tree.word!r} takes 2 operands, found 1.", text, 1)
    return list(tree)


def _close(items: list[deque[Node] | _Operator], signature: Signature, text: str, column: int) -> deque[Node] | _Operator:
    """The tree, or the operator with its second child, of what stands in a pair of brackets.

    text, column: of the opening bracket, for errors. Raises ExpressionError.
    """
    rule = f"The first word in brackets is an operator of {signature.name!r} ({', '.join(signature.by_word)})"
    if not items:
        raise ExpressionError(f"{rule}, here nothing.", text, column)
    first, *rest = items
    trees = [item for item in rest if not isinstance(item, _Operator)]
    if isinstance(first, _Operator) and first.right is None and len(trees) == len(rest):
        operator = signature.operator(first.word, len(trees))
        if trees and operator is not None and operator.arity in (None, len(trees)):
            return _join(operator, trees)
        arities = signature.by_word[first.word]
        if len(trees) == 1 and 2 in arities:
            return _Operator(first.word, first.column, trees[0])
        message = f"{first.word!r} takes {expected_operands(arities)}, found {len(trees)}."
        raise ExpressionError(message, text, column)
    if isinstance(first, deque) and len(rest) == 1 and isinstance(rest[0], _Operator) and rest[0].right is not None:
        infix_operator = signature.operator(rest[0].word, 2)
        assert infix_operator is not None  # there is one of two children, or its second would not be there
        return _join(infix_operator, [first, rest[0].right])
    incomplete = [item for item in rest if isinstance(item, _Operator) and item.right is not None]
    if isinstance(first, _Operator) and first.right is None and incomplete:
        word = incomplete[0].word
        message = f"{word!r} takes {expected_operands(signature.by_word[word])}, found 1."
        raise ExpressionError(message, text, incomplete[0].column)
    shown = f"{first[0][1]!r}" if isinstance(first, deque) and len(first) == 1 else "a tree"
    raise ExpressionError(f"{rule}, here {shown}.", text, column)


def expected_operands(arities: Collection[int | None]) -> str:
    """How many operands an operator takes, for errors."""
    if None in arities:
        return "at least one operand"
    numbers = sorted(arity for arity in arities if arity is not None)
    return f"{' or '.join(map(str, numbers))} operand{'s' * (numbers != [1])}"


def _join(operator: Operator, trees: list[deque[Node]]) -> deque[Node]:
    """The tree of an operator and its children, in the deque of the largest child: each step moves the smaller part."""
    joined = trees[0]
    for tree in trees[1:]:
        if len(tree) <= len(joined):
            joined.extend(tree)
        else:
            tree.extendleft(reversed(joined))
            joined = tree
    joined.appendleft((operator.name, None, len(trees)))
    return joined


def write(names: Sequence[str], texts: Sequence[str | None], arities: Sequence[int], notation: str) -> str:
    """The text of a tree in the arrays of an `Expression`."""
    opening, closing = NOTATIONS[notation]
    space_before_closing = " " if notation == "lists" else ""
    parts: list[str] = []
    missing: list[int] = []  # children that the open brackets still lack
    for name, text, arity in zip(names, texts, arities, strict=True):
        if text is None:
            parts.append(f"{opening}{name.partition('/')[0]}")
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


def unquoted(quoted: str, text: str, column: int) -> str:
    """The text of a JSON string. Raises ExpressionError."""
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise ExpressionError(f"{quoted[:30]} is no quoted text. Write it as in JSON.", text, column) from None
