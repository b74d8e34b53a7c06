"""Subtrees of a batch as sequences: in prefix form with parentheses, or node by node with the way down from the top.

A token is a whole number: a row of the vocabulary for a leaf, then the operators of the signature, then `(`, `)`, `,`. So
constants and operators have rows of their own.
"""

from dataclasses import dataclass

import numpy as np

from dgl_treestack.data.columns import Columns
from dgl_treestack.data.wellformed import written_out_sizes

SIGNS = ("(", ")", ",")


@dataclass(frozen=True)
class Trees:
    """K trees side by side as columns, N nodes in pre-order, with the size of every subtree.

    roots: (K,). parent: (N,) -1 at roots. A node with several parents in its graph stands below each of them.
    """

    token: np.ndarray
    is_operator: np.ndarray
    parent: np.ndarray
    slot: np.ndarray
    size: np.ndarray
    roots: np.ndarray

    @classmethod
    def below(cls, nodes: Columns, tops: np.ndarray, leaves: int) -> "Trees":
        """The trees below nodes (K,) of a batch whose vocabulary has so many rows."""
        sizes = written_out_sizes(nodes.children, nodes.turn, tops)
        ends = np.cumsum(sizes[tops])
        count = int(ends[-1]) if len(tops) else 0
        node, parent, slot = (np.full(count, value, dtype=np.int64) for value in (0, -1, 0))
        roots = place = ends - sizes[tops]
        node[place] = tops
        while len(place):
            children = nodes.children[node[place]]
            present = children >= 0
            widths = np.where(present, sizes[children], 0)
            places = place[:, None] + 1 + widths.cumsum(1) - widths
            parents, slots = (np.broadcast_to(grid, children.shape) for grid in (place[:, None], np.arange(children.shape[1])))
            place = places[present]
            node[place], parent[place], slot[place] = children[present], parents[present], slots[present]
        op, token = nodes.op[node], nodes.token[node]
        return cls(np.where(op < 0, token, leaves + op), op >= 0, parent, slot, sizes[node], roots)


def count(leaves: int, operators: int) -> int:
    """How many tokens there are."""
    return leaves + operators + len(SIGNS)


def prefix(trees: Trees, signs: int) -> tuple[np.ndarray, np.ndarray]:
    """Trees in prefix form: a leaf is a token, an operator its name, `(`, its children with `,` between them, and `)`.

    signs: the first token of SIGNS. Returns tokens (K, T), 0 beyond the end, lengths (K,).
    """
    operator, later = trees.is_operator.astype(np.int64), (trees.slot > 0).astype(np.int64)
    operators, commas = (np.concatenate([[0], np.cumsum(column)]) for column in (operator, later))
    everyone = np.arange(len(operator))
    ends = everyone + trees.size
    closed = np.cumsum(np.bincount(ends[trees.is_operator], minlength=len(operator) + 1))[: len(operator)]
    start = everyone + operators[:-1] + commas[1:] + closed
    length = trees.size + 2 * (operators[ends] - operators[:-1]) + commas[ends] - commas[1:]
    stream = np.zeros(int((start + length).max(initial=0)), dtype=np.int64)
    stream[start] = trees.token
    stream[start[trees.is_operator] + 1] = signs
    stream[(start + length - 1)[trees.is_operator]] = signs + 1
    stream[start[trees.slot > 0] - 1] = signs + 2
    return _gathered(stream, start[trees.roots], length[trees.roots]), length[trees.roots]


def preorder(trees: Trees) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Trees node by node, and the way to every node: which child was taken, the last step first.

    Returns tokens (K, T), 0 beyond the end, lengths (K,), and steps (K, T, D), -1 beyond the root.
    """
    lengths = trees.size[trees.roots]
    places = _gathered(np.arange(len(trees.token)), trees.roots, lengths)
    inside = np.arange(places.shape[1]) < lengths[:, None]
    steps, at = [], places.copy()
    while True:
        below = inside & (at != trees.roots[:, None])
        if not below.any():
            break
        steps.append(np.where(below, trees.slot[at], -1))
        at = np.where(below, trees.parent[at], trees.roots[:, None])
    way = np.stack(steps, axis=-1) if steps else np.full((*places.shape, 0), -1)
    return np.where(inside, trees.token[places], 0), lengths, way


def _gathered(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Slices of an array as rows (K, T), 0 beyond their ends."""
    steps = np.arange(int(lengths.max(initial=0)))
    inside = steps < lengths[:, None]
    return np.where(inside, values[np.minimum(starts[:, None] + steps, len(values) - 1)], 0)
