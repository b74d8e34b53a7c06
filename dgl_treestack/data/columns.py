"""What is propagated, as arrays: a batched graph, or the forest that one would be made of, which takes longer than a plan.

A forest knows which of its subtrees are equal, and when each is computed. Of a graph both are found anew whenever it is read,
from what it says now: its features and edges may be anybody's, and may have been changed since it was read before.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.forest import NO_OPERATOR, Forest, turn_after
from dgl_treestack.data.wellformed import Checked, check
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import Signature

Source: TypeAlias = "DGLGraph | Forest"
_LARGEST = 2**62


class Columns(NamedTuple):
    """All nodes: op, token, number (N,) as in a `Forest`; children (N, A) by slot, -1 where there is none.

    turn, subtree: (N,) as in a `Forest`.
    """

    op: np.ndarray
    token: np.ndarray
    number: np.ndarray
    children: np.ndarray
    turn: np.ndarray
    subtree: np.ndarray


def columns(source: Source, signature: Signature, tokens: int | None = None, *, checked: Checked | None = None) -> Columns:
    """Of a forest as it stands, of a graph after it was checked. tokens: rows of the embedding table, if they are known.
    checked: the graph, where that was done just now.

    Raises GraphError for a graph that is not well formed.
    """
    if isinstance(source, Forest):
        return Columns(source.op, source.token, source.number, source.child_table(), source.turn, source.subtree)
    checked = checked or check(source, signature, tokens)
    return Columns(*checked[:4], *_numbered_subtrees(checked, signature))


def size(source: Source) -> int:
    """Number of nodes."""
    return len(source.nodes) if isinstance(source, Forest) else source.num_nodes()


def feature(source: Source, name: str) -> Tensor:
    """(N, ...) of all nodes of a graph. Raises ConfigurationError where there is none."""
    if isinstance(source, Forest) or name not in source.ndata:
        raise ConfigurationError(f"Nodes have no feature {name!r} here. Put it on the graph: graph.ndata[{name!r}] = tensor.")
    values: Tensor = source.ndata[name]
    return values


def _numbered_subtrees(nodes: Checked, signature: Signature) -> tuple[np.ndarray, np.ndarray]:
    """turn and subtree (N,) by hash-consing, height by height: nodes are equal when operator and children's numbers are."""
    op, children, count = nodes.op, nodes.children, 0
    turn, subtree = np.zeros(len(op), dtype=np.int64), np.zeros(len(op), dtype=np.int64)
    arity = (children >= 0).sum(1)
    for height, frontier in enumerate(nodes.frontiers):
        if height:
            below = children[frontier]
            absent = below < 0
            turn[frontier] = turn_after(np.where(absent, 0, turn[below]).max(1), arity[frontier])
            keys = [op[frontier], *np.where(absent, 0, subtree[below] + 1).T]
        else:
            keys = [nodes.token[frontier] + 1, np.unique(nodes.number[frontier], return_inverse=True)[1]]
        subtree[frontier] = count + _distinct(keys)
        count = int(subtree[frontier].max()) + 1
    return turn, _in_order_of_kind(op, turn, arity, subtree, count, signature)[subtree]


def _distinct(keys: Sequence[np.ndarray]) -> np.ndarray:
    """(n,) numbers from 0 on of n nodes, equal where all keys, numbers from 0 on, are equal."""
    packed, bound = keys[0], int(keys[0].max()) + 1
    for key in keys[1:]:
        width = int(key.max()) + 1
        if bound > _LARGEST // width:
            packed, bound = np.unique(packed, return_inverse=True)[1], len(packed)
        packed, bound = packed * width + key, bound * width
    numbers: np.ndarray = np.unique(packed, return_inverse=True)[1]
    return numbers


def _in_order_of_kind(
    op: np.ndarray, turn: np.ndarray, arity: np.ndarray, subtree: np.ndarray, count: int, signature: Signature
) -> np.ndarray:
    """(count,) what the number of every subtree becomes when they are counted as a `Forest` counts them."""
    node = np.zeros(count, dtype=np.int64)
    node[subtree] = np.arange(len(subtree))  # any node of the subtree
    root = signature.index[signature.root] if signature.root else NO_OPERATOR - 1
    op, turn, arity = op[node], turn[node], arity[node]
    rank = np.where(op == NO_OPERATOR, 0, np.where(op == root, 2, 1))
    place = np.empty(count, dtype=np.int64)
    place[np.lexsort((op, arity, turn, rank))] = np.arange(count)
    return place


def in_order_of_appearance(subtree: np.ndarray) -> np.ndarray:
    """(N,) the same subtrees numbered from 0 on as they come first: the same numbers for a forest and for its graph."""
    _, first, numbers = np.unique(subtree, return_index=True, return_inverse=True)
    renumbered = np.empty(len(first), dtype=np.int64)
    renumbered[first.argsort()] = np.arange(len(first))
    return renumbered[numbers]
