"""Prefix text: the nodes in pre-order, separated by spaces. It serves trees of any depth.

    Equality Pow sin Symbol:x Integer:2 Pi

An operator is its name, with `/count` when the signature leaves its number of children open. A leaf is its class, followed
by `:text` unless the class has only one.
"""

import re

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.flat_tree import FlatTree, Node
from dgl_treestack.expression.leaves import LEAF_CLASSES
from dgl_treestack.expression.operators import Signature

_COUNT = re.compile("[1-9][0-9]{0,8}")


def write(expression: FlatTree) -> str:
    """The prefix form of a tree."""
    signature = expression.signature
    tokens = []
    for name, text, arity in zip(expression.names, expression.texts, expression.arities, strict=True):
        if text is not None:
            tokens.append(name if LEAF_CLASSES[name] == text else f"{name}:{text}")
        else:
            tokens.append(name if signature[name].arity is not None else f"{name}/{arity}")
    return " ".join(tokens)


def read(text: str, signature: Signature) -> list[Node]:
    """The nodes of a prefix text. Raises ExpressionError that points at the column of the wrong token."""
    nodes, column = [], 1
    for token in text.split(" "):
        if token:
            try:
                nodes.append(_node(token, signature))
            except ExpressionError as error:
                raise ExpressionError(str(error), text, column) from None
        column += len(token) + 1
    return nodes


def _node(token: str, signature: Signature) -> Node:
    name, colon, text = token.partition(":")
    if name in LEAF_CLASSES:
        return name, text if colon else LEAF_CLASSES[name], 0
    name, slash, count = token.partition("/")
    if slash and not _COUNT.fullmatch(count):
        raise ExpressionError(f"{count[:30]!r} is not a number of operands. Write {name}/3.")
    arity = int(count) if slash else signature[name].arity
    if arity is None:
        raise ExpressionError(f"{name!r} takes any number of operands. Say how many: {name}/3.")
    return name, None, arity
