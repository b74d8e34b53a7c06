"""Subtrees of a batched graph as sequences: in prefix form with parentheses, or node by node with the way down from the top.

Nodes of a tree are in pre-order, as `graph.build` lays them out. A token is a whole number: a row of the vocabulary for a leaf,
then the operators of the signature, then `(`, `)`, `,`. So constants and operators have rows of their own.
"""

from dataclasses import dataclass

import numpy as np

from dgl_treestack._dgl import DGLGraph

SIGNS = ("(", ")", ",")


@dataclass(frozen=True)
class Trees:
    """A batched graph as columns: N nodes, with the size of every subtree."""

    token: np.ndarray
    is_operator: np.ndarray
    parent: np.ndarray
    slot: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, graph: DGLGraph, leaves: int) -> "Trees":
        """Of a graph whose vocabulary has so many rows."""
        op, token = graph.ndata["op"].numpy(), graph.ndata["token"].numpy()
        child, parent = (end.numpy() for end in graph.edges(order="eid"))
        parents, slots = np.full(len(op), -1), np.zeros(len(op), dtype=np.int64)
        parents[child], slots[child] = parent, graph.edata["slot"].numpy()
        return cls(np.where(op < 0, token, leaves + op), op >= 0, parents, slots, _sizes(graph, parents))


def _sizes(graph: DGLGraph, parents: np.ndarray) -> np.ndarray:
    """(N,) nodes below and with every node."""
    size, heights = np.ones(len(parents), dtype=np.int64), graph.ndata["height"].numpy()
    for height in range(int(heights.max(initial=0))):
        chosen = np.flatnonzero((heights == height) & (parents >= 0))
        np.add.at(size, parents[chosen], size[chosen])
    return size


def count(leaves: int, operators: int) -> int:
    """How many tokens there are."""
    return leaves + operators + len(SIGNS)


def prefix(trees: Trees, nodes: np.ndarray, signs: int) -> tuple[np.ndarray, np.ndarray]:
    """Subtrees in prefix form: a leaf is a token, an operator its name, `(`, its children with `,` between them, and `)`.

    nodes: (K,) the tops of subtrees. signs: the first token of SIGNS. Returns tokens (K, T), 0 beyond the end, lengths (K,).
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
    return _gathered(stream, start[nodes], length[nodes]), length[nodes]


def preorder(trees: Trees, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtrees node by node, and the way to every node: which child was taken, the last step first.

    Returns tokens (K, T), 0 beyond the end, lengths (K,), and steps (K, T, D), -1 beyond the top of the subtree.
    """
    lengths = trees.size[nodes]
    places = _gathered(np.arange(len(trees.token)), nodes, lengths)
    inside = np.arange(places.shape[1]) < lengths[:, None]
    steps, at = [], places.copy()
    while True:
        below = inside & (at != nodes[:, None])
        if not below.any():
            break
        steps.append(np.where(below, trees.slot[at], -1))
        at = np.where(below, trees.parent[at], nodes[:, None])
    way = np.stack(steps, axis=-1) if steps else np.full((*places.shape, 0), -1)
    return np.where(inside, trees.token[places], 0), lengths, way


def _gathered(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Slices of an array as rows (K, T), 0 beyond their ends."""
    steps = np.arange(int(lengths.max(initial=0)))
    inside = steps < lengths[:, None]
    return np.where(inside, values[np.minimum(starts[:, None] + steps, len(values) - 1)], 0)
