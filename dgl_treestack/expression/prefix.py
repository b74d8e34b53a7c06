"""Prefix text: the nodes in pre-order, separated by spaces, for trees of any depth.

    Equality Pow sin Symbol:x Integer:2 Pi

An operator is its name, with `/count` when the signature leaves its number of children open. A leaf is its class, followed
by `:text` unless the class has only one.
"""

import re
from collections.abc import Sequence

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.operators import LEAF_CLASSES, Node, Signature

_COUNT = re.compile("[1-9][0-9]{0,8}")


def write(names: Sequence[str], texts: Sequence[str | None], arities: Sequence[int], signature: Signature) -> str:
    """The prefix form of a tree in the arrays of an `Expression`."""
    tokens = []
    for name, text, arity in zip(names, texts, arities, strict=True):
        if text is not None:
            tokens.append(name if LEAF_CLASSES[name] == text else f"{name}:{text}")
        else:
            tokens.append(name if signature[name].arity is not None else f"{name}/{arity}")
    return " ".join(tokens)


def read(text: str, signature: Signature) -> list[Node]:
    """The nodes of a prefix text. Raises ExpressionError that points at the column of the wrong token."""
    nodes: list[Node] = []
    column = 1
    for token in text.split(" "):
        kind, colon, text_of_leaf = token.partition(":")
        name, slash, count = token.partition("/")
        try:
            if kind in LEAF_CLASSES:
                nodes.append((kind, text_of_leaf if colon else LEAF_CLASSES[kind], 0))
            elif slash and not _COUNT.fullmatch(count):
                raise ExpressionError(f"{count[:30]!r} is not a number of operands. Write {name}/3.")
            elif token:
                arity = int(count) if slash else signature[name].arity
                if arity is None:
                    raise ExpressionError(f"{name!r} takes any number of operands. Say how many: {name}/3.")
                nodes.append((name, None, arity))
        except ExpressionError as error:
            raise ExpressionError(str(error), text, column) from None
        column += len(token) + 1
    return nodes
