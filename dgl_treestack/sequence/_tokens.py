"""Subtrees of a batch as sequences: in prefix form with parentheses, or node by node with the path from the top.

Tokens are numbered: first the rows of the vocabulary, which are the leaves, then the operators of the signature, then the signs
`(`, `)` and `,`. So constants and operators have separate rows in an embedding table.
"""

from dataclasses import dataclass

import numpy as np

from dgl_treestack.data.forest import Columns
from dgl_treestack.data.wellformed import written_out_sizes

SIGNS = ("(", ")", ",")


@dataclass(frozen=True)
class Trees:
    """K trees in sequence, as columns over their N nodes in pre-order.

    token, is_operator: (N,). parent: (N,) index of the parent, -1 at roots. slot: (N,) position among the parent's children.
    size: (N,) number of nodes of its subtree. roots: (K,) indices of the roots.
    """

    token: np.ndarray
    is_operator: np.ndarray
    parent: np.ndarray
    slot: np.ndarray
    size: np.ndarray
    roots: np.ndarray

    @classmethod
    def below(cls, batch: Columns, tops: np.ndarray, leaves: int) -> "Trees":
        """Return the trees below the nodes `tops` (K,) of a batch. leaves: rows of its vocabulary.

        A node of the batch with several parents appears once below each of them.
        """
        sizes = written_out_sizes(batch.children, batch.height, tops)
        ends = np.cumsum(sizes[tops])
        count = int(ends[-1]) if len(tops) else 0
        node, parent, slot = (np.full(count, value, dtype=np.int64) for value in (0, -1, 0))
        roots = level = ends - sizes[tops]
        node[level] = tops
        while len(level):  # indices of the nodes of one level, from the roots down
            children = batch.children[node[level]]
            present = children >= 0
            widths = np.where(present, sizes[children], 0)
            indices = level[:, None] + 1 + widths.cumsum(1) - widths
            parents, slots = (np.broadcast_to(grid, children.shape) for grid in (level[:, None], np.arange(children.shape[1])))
            level = indices[present]
            node[level], parent[level], slot[level] = children[present], parents[present], slots[present]
        op, token = batch.op[node], batch.token[node]
        return cls(np.where(op < 0, token, leaves + op), op >= 0, parent, slot, sizes[node], roots)

    @property
    def depths(self) -> np.ndarray:
        """(K,) depth of every tree, 0 for a leaf."""
        steps, ancestor = np.zeros(len(self.parent), dtype=np.int64), self.parent
        while (ancestor >= 0).any():
            steps += ancestor >= 0
            ancestor = np.where(ancestor >= 0, self.parent[ancestor], -1)
        return np.maximum.reduceat(steps, self.roots)


def prefix(trees: Trees, signs: int) -> tuple[np.ndarray, np.ndarray]:
    """Write trees in prefix form: a leaf as its token, an operator as its token, `(`, its children with `,` between, and `)`.

    signs: the number of the first sign. Returns tokens (K, T), 0 beyond the end, and lengths (K,).
    """
    is_operator, follows_comma = trees.is_operator, trees.slot > 0
    operators, commas = (np.concatenate([[0], np.cumsum(column, dtype=np.int64)]) for column in (is_operator, follows_comma))
    nodes = np.arange(len(is_operator))
    ends = nodes + trees.size
    closed = np.cumsum(np.bincount(ends[is_operator], minlength=len(nodes) + 1))[: len(nodes)]
    start = nodes + operators[:-1] + commas[1:] + closed  # of every node in the stream of all tokens
    length = trees.size + 2 * (operators[ends] - operators[:-1]) + commas[ends] - commas[1:]
    stream = np.zeros(int((start + length).max(initial=0)), dtype=np.int64)
    stream[start] = trees.token
    stream[start[is_operator] + 1] = signs
    stream[(start + length - 1)[is_operator]] = signs + 1
    stream[start[follows_comma] - 1] = signs + 2
    return _padded(stream, start[trees.roots], length[trees.roots]), length[trees.roots]


def preorder(trees: Trees) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List trees node by node, each with its path: the slots on the way up from the node to the root.

    Returns tokens (K, T), 0 beyond the end, lengths (K,), and paths (K, T, D), -1 beyond the root.
    """
    lengths = trees.size[trees.roots]
    nodes = _padded(np.arange(len(trees.token)), trees.roots, lengths)
    inside = np.arange(nodes.shape[1]) < lengths[:, None]
    steps, ancestors = [], nodes.copy()
    while True:
        below = inside & (ancestors != trees.roots[:, None])
        if not below.any():
            break
        steps.append(np.where(below, trees.slot[ancestors], -1))
        ancestors = np.where(below, trees.parent[ancestors], trees.roots[:, None])
    paths = np.stack(steps, axis=-1) if steps else np.full((*nodes.shape, 0), -1)
    return np.where(inside, trees.token[nodes], 0), lengths, paths


def _padded(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return slices of an array as rows (K, T), 0 beyond their ends."""
    steps = np.arange(int(lengths.max(initial=0)))
    inside = steps < lengths[:, None]
    return np.where(inside, values[np.minimum(starts[:, None] + steps, len(values) - 1)], 0)
