"""Bracketed text of trees whose brackets name no operator, for trees of any depth.

    plain       ( ( ( [MAX 2 ) 9 ) ] )     a bracket holds the children of a node (ListOps; Bowman et al. 2016)
    labelled    (3 (2 It) (4 works))       a bracket holds a label, then children or the word of a leaf (Penn Treebank,
                                           Stanford Sentiment Treebank); `-` is an unknown label

The operator of a node follows from its number of children, so a language in one of these notations has at most one operator
for each. A word with spaces or round brackets, or one that begins with a quotation mark, is a JSON string without brackets.
"""

import json
import re
from collections.abc import Sequence

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.brackets import unquoted
from dgl_treestack.expression.operators import UNKNOWN, Node, Signature

_TOKEN = re.compile(r'\s*(?:([()])|("(?:[^"\\()]|\\.)*")(?=[\s()]|$)|([^\s()]+))', re.ASCII)  # words may have other spaces
_PLAIN = re.compile(r'[^\s()"\x00-\x1f\x7f][^\s()\x00-\x1f\x7f]*')
_SPACES = " \t\n\r\f\v"
_BRACKETS_IN_JSON = str.maketrans({"(": r"\u0028", ")": r"\u0029"})


def read(text: str, signature: Signature) -> tuple[list[Node], list[str]]:
    """The nodes of a text in pre-order and the label of each, `UNKNOWN` where there is none.

    Raises ExpressionError that points at the column.
    """
    is_labelled = signature.notation == "labelled"
    operator_of_arity = {operator.arity: operator.name for operator in signature.inner}
    no_label = f"A bracket begins with a label, or {UNKNOWN!r} for an unknown one."
    nodes: list[Node] = []
    labels: list[str] = []
    # Per open bracket: its column, its node, how many children have been read, whether one was a word.
    frames: list[tuple[int, int, int, bool]] = []
    position, end, is_label_next = 0, len(text.rstrip(_SPACES)), False
    while position < end:
        match = _TOKEN.match(text, position)
        assert match is not None  # any text has a token
        bracket, quoted, word = match.groups()
        column, position = match.start(match.lastindex or 0) + 1, match.end()
        if not frames and (nodes or bracket == ")"):
            message = "The tree is complete before this. Write one tree." if nodes else "')' closes nothing. Remove it."
            raise ExpressionError(message, text, column)
        if is_label_next and (quoted or word):
            labels[-1], is_label_next = unquoted(quoted, text, column) if quoted else word, False
            continue
        is_outermost_of_treebank = len(frames) == 1 and bracket == "("  # `( (S ...) )` has no label
        if is_label_next and not is_outermost_of_treebank:
            raise ExpressionError(no_label, text, column)
        if bracket != ")":
            if frames:
                frames[-1] = (*frames[-1][:2], frames[-1][2] + 1, frames[-1][3] or not bracket)
            if bracket:
                frames.append((column, len(nodes), 0, False))
            is_label_next = bool(bracket) and is_labelled
            nodes.append(("", None, 0) if bracket else ("Word", unquoted(quoted, text, column) if quoted else word, 0))
            labels.append(UNKNOWN)
            continue
        column, node, children, has_word = frames.pop()
        if is_labelled and has_word:
            if children > 1:
                remedy = 'A leaf is (label word); write a leaf of several words as (label "two words").'
                raise ExpressionError(f"This bracket holds a word and {children - 1} more. {remedy}", text, column)
            nodes[node] = nodes.pop()
            labels.pop()
        elif is_labelled and not frames and text[column:].lstrip(_SPACES).startswith("("):  # without a label
            if children > 1:
                raise ExpressionError(no_label, text, column)
            del nodes[0], labels[0]
        else:
            name = operator_of_arity.get(children) or operator_of_arity.get(None)
            if not name or not children:
                counts = ", ".join("any" if arity is None else str(arity) for arity in operator_of_arity)
                has = f"This bracket has {children} child{'ren' * (children != 1)}"
                remedy = f"operators of {signature.name!r} have {counts} children. Correct it, or add an operator."
                raise ExpressionError(f"{has}; {remedy}", text, column)
            nodes[node] = (name, None, children)
    if frames:
        raise ExpressionError(f"The text ends with {len(frames)} bracket(s) open. A line holds a whole tree.", text, end + 1)
    if not nodes:
        raise ExpressionError("There is no tree.", text, end + 1)
    return nodes, labels


def write(texts: Sequence[str | None], arities: Sequence[int], notation: str, labels: Sequence[str] | None = None) -> str:
    """The text of a tree in the arrays of an `Expression`. labels: per node, for `labelled`; by default unknown."""
    is_labelled = notation == "labelled"
    parts: list[str] = []
    missing: list[int] = []  # children that the open brackets still lack
    for node, (text, arity) in enumerate(zip(texts, arities, strict=True)):
        label = (_quoted(labels[node]) if labels else UNKNOWN) if is_labelled else ""
        if text is None:
            parts.append(f"({label}")
            missing.append(arity)
            continue
        parts.append(f"({label} {_quoted(text)})" if is_labelled else _quoted(text))
        while missing:
            missing[-1] -= 1
            if missing[-1]:
                break
            missing.pop()
            parts[-1] += ")" if is_labelled else " )"
    return " ".join(parts)


def _quoted(text: str) -> str:
    """A word as it stands, or as a JSON string if it would not be read back."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False).translate(_BRACKETS_IN_JSON)
