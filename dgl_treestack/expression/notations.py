"""Texts of trees of any depth: prefix, and brackets with and without operators.

    prefix      Equality Pow sin Symbol:x Integer:2 Pi           the nodes in pre-order, separated by spaces
    brackets    (or (not a) "it's b")                            an operator and its children in brackets, leaves as words
    lists       [MAX 2 9 [MIN 4 7 ] 0 ]                          ListOps (Nangia & Bowman 2018); its binary ( ) are skipped
    plain       ( ( ( [MAX 2 ) 9 ) ] )                           the children of a node (ListOps; Bowman et al. 2016)
    labelled    (3 (2 It) (4 works))                             a label, then children or the word of a leaf (Penn Treebank,
                                                                 Stanford Sentiment Treebank); `-` is an unknown label

In `prefix`, an operator is its name, with `/count` when the signature leaves its number of children open. A leaf is its class,
followed by `:text` unless the class has only one: `MAX/3 Word:2 Word:9 Word:"it's 4"`.
In `brackets`, an operator of two children may also stand between them, in brackets with the second one, as in the files of
Bowman, Manning & Potts 2015: `( ( not a ) ( or b ) )`.
In `plain` and `labelled`, the operator of a node follows from its number of children, so a language in one of them has at most
one operator for each.
A text with spaces, quotation marks or characters that JSON escapes is a JSON string; one of `plain` and `labelled` may have
quotation marks, but at its beginning, and no round brackets.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.operators import UNKNOWN, WITHOUT_OPERATORS, Node, Signature, operands

if TYPE_CHECKING:
    from dgl_treestack.expression.tree import Expression

WITH_OPERATORS = ("brackets", "lists")
_BRACKETS = {**dict.fromkeys(("brackets", "plain", "labelled"), ("(", ")")), "lists": ("[", "]")}
_TOKEN = re.compile(r'\s*(?:([()\[\]])|("(?:[^"\\]|\\.)*")|([^\s()\[\]"]+))')
_TOKEN_WITHOUT_OPERATORS = re.compile(r'\s*(?:([()])|("(?:[^"\\()]|\\.)*")(?=[\s()]|$)|([^\s()]+))', re.ASCII)
_ASCII_SPACES = " \t\n\r\f\v"  # words without operators may have other spaces
_PLAIN = {  # words that are read back as they stand
    "prefix": re.compile(r'[^\s"\\\x00-\x1f\x7f]+'),
    **dict.fromkeys(WITH_OPERATORS, re.compile(r'[^\s()\[\]"\\\x00-\x1f\x7f]+')),
    **dict.fromkeys(WITHOUT_OPERATORS, re.compile(r'[^\s()"\x00-\x1f\x7f][^\s()\x00-\x1f\x7f]*')),
}
_BRACKETS_IN_JSON = str.maketrans({"(": r"\u0028", ")": r"\u0029"})
_NO_LABEL = f"A bracket begins with a label, or {UNKNOWN!r} for an unknown one."
_COUNT = re.compile("[1-9][0-9]{0,8}")
_PREFIX_TOKEN = re.compile(r'[^ "]*(?:"(?:[^"\\]|\\.)*"?[^ ]*)?')  # up to a space outside of a quoted text


def write(tree: "Expression", labels: Sequence[str] = (), notation: str | None = None) -> str:
    """The text of a tree in brackets. labels: per node, for `labelled`; else unknown. notation: by default that of the tree."""
    notation = notation or tree.signature.notation
    (opening, closing), is_labelled = _BRACKETS[notation], notation == "labelled"
    space = " " if notation in ("lists", "plain") else ""
    parts: list[str] = []
    missing: list[int] = []  # children that the open brackets still lack
    for node, (name, text, arity) in enumerate(tree.nodes):
        label = quoted(labels[node], notation) if labels else UNKNOWN
        if text is None:
            head = label if is_labelled else "" if notation == "plain" else name.partition("/")[0]
            parts.append(f"{opening}{head}")
            missing.append(arity)
            continue
        word = quoted(text, notation)
        parts.append(f"({label} {word})" if is_labelled else word)
        while missing:
            missing[-1] -= 1
            if missing[-1]:
                break
            missing.pop()
            parts[-1] += space + closing
    return " ".join(parts)


def read_prefix(text: str, signature: Signature) -> list[Node]:
    """The nodes of a prefix text. Raises ExpressionError that points at the column of the wrong token."""
    nodes: list[Node] = []
    for match in _PREFIX_TOKEN.finditer(text):
        token = match[0]
        if not token:  # before a space and at the end
            continue
        kind, colon, of_leaf = token.partition(":")
        name, slash, count = token.partition("/")
        fault = ""
        try:
            if kind in signature.leaf_classes:
                of_leaf = _unquoted(of_leaf) if of_leaf.startswith('"') else of_leaf
                nodes.append((kind, of_leaf if colon else signature.leaf_classes[kind], 0))
            elif slash and not _COUNT.fullmatch(count):
                fault = f"{count[:30]!r} is not a number of operands. Write {name}/3."
            else:
                # without a name of its own, it is split by its number of children, or takes any number
                named = signature.by_word.get(name, {}) if slash and token not in signature else {}
                of_count = named.get(int(count)) or named.get(None) if named else None
                operator = of_count or next(iter(named.values()), None) or signature[token]
                arity = int(count) if slash else operator.arity
                if arity is None:
                    fault = f"{name!r} takes any number of operands. Say how many: {name}/3."
                else:
                    nodes.append((operator.name, None, arity))
        except ExpressionError as error:
            fault = str(error)
        if fault:
            raise ExpressionError(fault, text, match.start() + 1)
    return nodes


def _unquoted(quoted: str, *place: Any) -> str:
    """The text of a JSON string. place: the text that it stands in and its column. Raises ExpressionError."""
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise ExpressionError(f'{quoted[:30]} is no quoted text. Write it as in JSON: "it\'s".', *place) from None


def _tokens(text: str, notation: str) -> Iterator[tuple[str, str, bool, int]]:
    """Yield bracket or '', word or '', whether it was quoted, and column. Raises ExpressionError unless there is one tree."""
    opening, closing = _BRACKETS[notation]
    has_operators = notation in WITH_OPERATORS
    pattern = _TOKEN if has_operators else _TOKEN_WITHOUT_OPERATORS
    position, end = 0, len(text.rstrip(None if has_operators else _ASCII_SPACES))
    depth, is_begun, fault = 0, False, ""
    while position < end:
        match = pattern.match(text, position)
        if match is None:
            column, fault = text.index('"', position) + 1, "This quotation mark has no partner."
            break
        bracket, in_quotes, word = match.groups()
        column, position = match.start(match.lastindex or 0) + 1, match.end()
        if bracket and bracket not in (opening, closing):
            if notation == "lists":
                continue
            fault = f"{bracket!r} is no bracket of this notation. Write {opening} and {closing}."
        elif not depth and is_begun and not (has_operators and bracket == closing):
            fault = "The tree is complete before this. Write one tree."
        elif not depth and bracket == closing:
            fault = f"{closing!r} closes nothing. Remove it."
        if fault:
            break
        depth, is_begun = depth + (bracket == opening) - (bracket == closing), True
        yield bracket or "", _unquoted(in_quotes, text, column) if in_quotes else word or "", bool(in_quotes), column
    if not fault and (depth or not is_begun):
        fault = f"The text ends with {depth} bracket(s) open. A line holds a whole tree." if depth else "There is no tree."
        column = end + 1
    if fault:
        raise ExpressionError(fault, text, column)


# A tree that has been read: its label, None for a bare word, its root, and its children.
_Tree = tuple[str | None, Node, Sequence["_Tree"]]


@dataclass
class _Operator:
    """The word of an operator whose children are not complete: none, or the second of two."""

    word: str
    column: int
    right: _Tree | None = None


_Item = _Tree | _Operator  # what stands in a bracket


def read(text: str, signature: Signature) -> tuple[list[Node], list[str]]:
    """The nodes of a text, in pre-order, in the notation of a signature.

    And, in notations without operators, the label of each, `UNKNOWN` where there is none; in others no labels. Raises
    ExpressionError that points at the column.
    """
    if signature.notation == "prefix":
        return read_prefix(text, signature), []
    opening, _ = _BRACKETS[signature.notation]
    is_labelled, has_operators = signature.notation == "labelled", signature.notation in WITH_OPERATORS
    frames: list[tuple[int, list[_Item]]] = [(0, [])]  # per open bracket, its column and what has been read in it
    for bracket, word, is_quoted, column in _tokens(text, signature.notation):
        start, items = frames[-1]
        if not bracket:
            is_operator = has_operators and not items and len(frames) > 1 and not is_quoted and word in signature.by_word
            items.append(_Operator(word, column) if is_operator else (None, ("Word", word, 0), ()))
            continue
        # `( (S ...) )`, as treebanks have it, has no label
        if is_labelled and not items and len(frames) > 1 + (bracket == opening):
            raise ExpressionError(_NO_LABEL, text, column)
        if bracket == opening:
            frames.append((column, []))
        else:
            frames.pop()
            frames[-1][1].append(_close(items, signature, text, start))
    tree = frames[0][1][0]
    if isinstance(tree, _Operator):
        raise ExpressionError(f"{tree.word!r} takes 2 operands, found 1.", text, 1)
    nodes, labels, pending = [], [], [tree]
    while pending:
        label, root, children = pending.pop()
        nodes.append(root)
        labels.append(UNKNOWN if label is None else label)
        pending.extend(reversed(children))
    return nodes, [] if has_operators else labels


def _close(items: list[_Item], signature: Signature, text: str, column: int) -> _Item:
    """The tree, or the operator with its second child, of what stands in brackets. column: of the opening one, for errors.

    In notations without operators the operator follows from the number of children, and the first word may be a label.
    """
    if signature.notation in WITHOUT_OPERATORS:
        children, label, fault = cast(list[_Tree], items), None, ""
        if signature.notation == "labelled":
            if children[0][0] is None:
                label = children.pop(0)[1][1]
            is_leaf = None in [of_child for of_child, _, _ in children]
            if len(children) == 1 and is_leaf:
                return label, children[0][1], ()
            if len(children) == 1 and label is None:
                return children[0]
            if is_leaf:
                remedy = 'A leaf is (label word); write a leaf of several words as (label "two words").'
                fault = f"This bracket holds a word and {len(children) - 1} more. {remedy}"
            elif label is None:
                fault = _NO_LABEL
        count, arities = len(children), signature.by_arity
        name = arities.get(count) or arities.get(None)
        if not fault and name and count:
            return label, (name, None, count), children
        counts = ", ".join("any" if arity is None else str(arity) for arity in arities)
        remedy = f"operators of {signature.name!r} have {counts} children. Correct it, or add an operator."
        raise ExpressionError(fault or f"This bracket has {count} child{'ren' * (count != 1)}; {remedy}", text, column)
    shown, fault = "nothing", ""
    match items:
        case [_Operator(word, at, None), *rest]:
            trees = [item for item in rest if not isinstance(item, _Operator)]
            count, named = len(trees), signature.by_word[word]
            operator = named.get(count) or named.get(None)
            if len(trees) == len(rest):
                if trees and operator is not None:
                    return None, (operator.name, None, count), trees
                if count == 1 and 2 in signature.by_word[word]:
                    return _Operator(word, at, trees[0])
            else:  # one has its second child only, and is not the last of two
                wrong = next(item for item in rest if isinstance(item, _Operator))
                word, count, column = wrong.word, 1, wrong.column
            fault = f"{word!r} takes {operands(signature.by_word[word])}, found {count}."
        case [tuple() as left, _Operator(word, _, tuple() as right)]:
            return None, (signature.by_word[word][2].name, None, 2), (left, right)
        case [(_, (_, str() as word, _), _), *_]:
            shown = repr(word)
        case [_, *_]:
            shown = "a tree"
    rule = f"The first word in brackets is an operator of {signature.name!r} ({', '.join(signature.by_word)})"
    raise ExpressionError(fault or f"{rule}, here {shown}.", text, column)


def quoted(text: str, notation: str) -> str:
    """A word as it stands, or as a JSON string if it would not be read back."""
    if _PLAIN[notation].fullmatch(text):
        return text
    written = json.dumps(text, ensure_ascii=False)
    return written.translate(_BRACKETS_IN_JSON) if notation in WITHOUT_OPERATORS else written
