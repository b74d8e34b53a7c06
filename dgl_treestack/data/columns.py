"""What is propagated, as arrays: the nodes of a batched graph, or of the forest that such a graph would be built from.

A forest stores which of its subtrees are equal, and when each node is computed. For a graph both are computed anew at every
call, from its current features and edges, because anybody may have built or changed it.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.forest import NO_OPERATOR, Forest
from dgl_treestack.data.wellformed import Checked, check
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import Signature

Source: TypeAlias = "DGLGraph | Forest"
_LARGEST = 2**62


class Columns(NamedTuple):
    """All nodes: op, token, number (N,) as in a `Forest`; children (N, A) by slot, -1 where there is none.

    height, subtree: (N,) as in a `Forest`.
    """

    op: np.ndarray
    token: np.ndarray
    number: np.ndarray
    children: np.ndarray
    height: np.ndarray
    subtree: np.ndarray


def columns(source: Source, signature: Signature, tokens: int | None = None, *, checked: Checked | None = None) -> Columns:
    """The columns of a forest as it is, of a graph after a check that it is well formed.

    tokens: rows of the embedding table, None if unknown. checked: the result of `check` for this graph, to skip the check.
    Raises GraphError for a graph that is not well formed.
    """
    if isinstance(source, Forest):
        return Columns(source.op, source.token, source.number, source.child_table(), source.height, source.subtree)
    checked = checked or check(source, signature, tokens)
    return Columns(*checked[:4], checked.heights, _numbered_subtrees(checked, signature))


def size(source: Source) -> int:
    """Number of nodes."""
    return len(source.nodes) if isinstance(source, Forest) else source.num_nodes()


def feature(source: Source, name: str) -> Tensor:
    """(N, ...) feature of all nodes of a graph. Raises ConfigurationError if the source is a forest or lacks the feature."""
    if isinstance(source, Forest) or name not in source.ndata:
        raise ConfigurationError(f"Nodes have no feature {name!r} here. Put it on the graph: graph.ndata[{name!r}] = tensor.")
    values: Tensor = source.ndata[name]
    return values


def _numbered_subtrees(nodes: Checked, signature: Signature) -> np.ndarray:
    """subtree (N,) as in a `Forest`, by hash-consing, height by height.

    Leaves are equal when their tokens and numbers are, operators when the operators and the subtrees of their children are.
    """
    op, children, count = nodes.op, nodes.children, 0
    subtree = np.zeros(len(op), dtype=np.int64)
    for height, frontier in enumerate(nodes.frontiers):
        if height:
            below = children[frontier]
            keys = [op[frontier], *np.where(below < 0, 0, subtree[below] + 1).T]
        else:
            keys = [nodes.token[frontier] + 1, np.unique(nodes.number[frontier], return_inverse=True)[1]]
        packed, bound = keys[0], int(keys[0].max()) + 1  # all keys as one integer, the digits of a number in mixed radix
        for key in keys[1:]:
            width = int(key.max()) + 1
            if bound > _LARGEST // width:
                packed, bound = np.unique(packed, return_inverse=True)[1], len(packed)
            packed, bound = packed * width + key, bound * width
        subtree[frontier] = count + np.unique(packed, return_inverse=True)[1]
        count = int(subtree[frontier].max()) + 1
    node = np.zeros(count, dtype=np.int64)
    node[subtree] = np.arange(len(subtree))  # any one node of every subtree
    root = signature.index[signature.root] if signature.root else NO_OPERATOR - 1
    rank = np.where(op[node] == NO_OPERATOR, 0, np.where(op[node] == root, 2, 1))
    renumbered = np.empty(count, dtype=np.int64)
    arity = (children[node] >= 0).sum(1)
    renumbered[np.lexsort((op[node], arity, nodes.heights[node], rank))] = np.arange(count)
    return renumbered[subtree]


def in_order_of_appearance(subtree: np.ndarray) -> np.ndarray:
    """(N,) the same subtrees numbered from 0 in order of first appearance; a forest and its graph then have equal numbers."""
    _, first, numbers = np.unique(subtree, return_index=True, return_inverse=True)
    renumbered = np.empty(len(first), dtype=np.int64)
    renumbered[first.argsort()] = np.arange(len(first))
    return renumbered[numbers]
