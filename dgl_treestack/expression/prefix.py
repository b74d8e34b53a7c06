"""Prefix text: the nodes in pre-order, separated by spaces, for trees of any depth.

    Equality Pow sin Symbol:x Integer:2 Pi

An operator is its name, with `/count` when the signature leaves its number of children open. A leaf is its class, followed
by `:text` unless the class has only one. A text with spaces, quotation marks or characters that JSON escapes is a JSON string:

    MAX/3 Word:2 Word:9 Word:"it's 4"
"""

import json
import re
from collections.abc import Sequence

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.operators import Node, Signature

_COUNT = re.compile("[1-9][0-9]{0,8}")
_PLAIN = re.compile(r'[^\s"\\\x00-\x1f\x7f]+')
_TOKEN = re.compile(r'[^ "]*(?:"(?:[^"\\]|\\.)*"?[^ ]*)?')  # up to a space outside of a quoted text


def write(names: Sequence[str], texts: Sequence[str | None], arities: Sequence[int], signature: Signature) -> str:
    """The prefix form of a tree in the arrays of an `Expression`."""
    tokens = []
    for name, text, arity in zip(names, texts, arities, strict=True):
        if text is None:
            tokens.append(name if signature[name].arity is not None else f"{name}/{arity}")
        elif signature.leaf_classes[name] == text:
            tokens.append(name)
        else:
            tokens.append(f"{name}:{text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)}")
    return " ".join(tokens)


def read(text: str, signature: Signature) -> list[Node]:
    """The nodes of a prefix text. Raises ExpressionError that points at the column of the wrong token."""
    nodes: list[Node] = []
    start = 0
    while start <= len(text):
        match = _TOKEN.match(text, start)
        assert match is not None  # it may be empty
        token = match.group()
        kind, colon, text_of_leaf = token.partition(":")
        name, slash, count = token.partition("/")
        try:
            if kind in signature.leaf_classes:
                nodes.append((kind, _unquoted(text_of_leaf) if colon else signature.leaf_classes[kind], 0))
            elif slash and not _COUNT.fullmatch(count):
                raise ExpressionError(f"{count[:30]!r} is not a number of operands. Write {name}/3.")
            elif token:
                is_split = slash and token not in signature  # by its number of children, or it takes any number
                operator = (signature.operator(name, int(count)) if is_split else None) or signature[token]
                arity = int(count) if slash else operator.arity
                if arity is None:
                    raise ExpressionError(f"{name!r} takes any number of operands. Say how many: {name}/3.")
                nodes.append((operator.name, None, arity))
        except ExpressionError as error:
            raise ExpressionError(str(error), text, start + 1) from None
        start = match.end() + 1
    return nodes


def _unquoted(text: str) -> str:
    """The text of a leaf, which is a JSON string if it begins with a quotation mark."""
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        raise ExpressionError(f'{text[:30]} is no quoted text. Write it as in JSON: "it\'s".') from None
