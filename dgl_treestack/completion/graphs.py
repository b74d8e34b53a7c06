r"""Blanks with all their candidates as one graph.

    x*sin(_) = y     candidates, once     the nodes between a blank and its root, once per candidate

                     c1  c2  ...    ──►   sin(c1)  sin(c2)  ...   ──►   x*sin(c1)  x*sin(c2)  ...
                                                                          ▲
    everything else, once:  x  y  ────────────────────────────────────────┘

A node may have several parents, so this is not a tree, but it is computed like one. The graph has no equality: the task reads
the states of the two sides.
"""

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data import graph
from dgl_treestack.data.forest import Forest, columns
from dgl_treestack.data.vocabulary import NO_TOKEN, Vocabulary
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH, Signature

Blank = tuple[Expression, int]  # an equation, and the node to predict


def blank_graphs(
    blanks: Sequence[Blank],
    candidates: Sequence[Expression],
    vocabulary: Vocabulary,
    signature: Signature = MATH,
    *,
    max_nodes: int,
) -> Iterator[tuple[DGLGraph, np.ndarray, np.ndarray]]:
    """Yield graphs of blanks with one set of C candidates, of about `max_nodes` nodes at most, in the order of the blanks.

    With a graph come the nodes (blanks, distinct candidates, 2) of the sides, and for every candidate (C,) its position among
    those that differ for a model. Raises VocabularyError for a leaf without a row.
    """
    forest = Forest.build([*candidates, *(tree for tree, _ in blanks)], vocabulary, signature)
    starts = forest.offsets[len(candidates) : -1].tolist()
    roots = forest.subtree[forest.offsets[: len(candidates)]]
    _, first, distinct = np.unique(roots, return_index=True, return_inverse=True)
    base = _Nodes(forest)
    # All candidates at once: node by node, blanks of `completion-deep` took 24 CPU seconds a run in place of 9.
    base.add(0, int(forest.offsets[len(candidates)]))
    fillers = base.node_of_subtree[roots[first]]
    nodes, sides = base.copy(), list[np.ndarray]()
    for (tree, blank), start in zip(blanks, starts, strict=True):
        filled, below = fillers, blank
        for node in range(blank - 1, -1, -1):
            if tree.ends[node] > blank:  # an ancestor of the blank; the nearest comes first
                children = [
                    filled if child == below else nodes.add(start + child, start + tree.ends[child])
                    for child in tree.children(node)
                ]
                if node:  # not the equality, whose children are the sides
                    values = (signature.index[tree.names[node]], NO_TOKEN, 0.0)
                    filled, below = nodes.extend(values, children, len(fillers)), node
        sides.append(np.stack([np.broadcast_to(side, len(fillers)) for side in children], axis=1))
        if nodes.count >= max_nodes or start == starts[-1]:
            op, token, number = (np.concatenate(column) for column in zip(*nodes.columns, strict=True))
            child, parent, slot = (np.concatenate(column) for column in zip(*nodes.edges, strict=True))
            batch = graph.from_columns({"op": op, "token": token, "number": number}, (child, parent, slot))
            yield batch, np.stack(sides), distinct
            nodes, sides = base.copy(), []


class _Nodes:
    """A growing graph: distinct subtrees of a forest, and nodes above them.

    node_of_subtree: for every subtree of the forest by its number, its node, or -1.
    """

    def __init__(self, forest: Forest):
        self.forest = forest
        self.children = columns(forest, forest.signature).children
        self.count = 0
        self.columns: list[tuple[np.ndarray, ...]] = []  # op, token, number
        self.edges: list[tuple[np.ndarray, ...]] = []  # source, target, slot
        self.node_of_subtree = np.full(forest.subtree.max(initial=-1) + 1, -1)

    def copy(self) -> "_Nodes":
        """Return a copy that can grow independently."""
        nodes = copy(self)
        nodes.columns, nodes.edges, nodes.node_of_subtree = [*self.columns], [*self.edges], self.node_of_subtree.copy()
        return nodes

    def add(self, start: int, stop: int) -> np.ndarray:
        """Add the missing subtrees of whole trees, the forest's nodes from `start` to `stop`.

        Returns the node (1,) of the first tree.
        """
        forest = self.forest
        numbers, first = np.unique(forest.subtree[start:stop], return_index=True)
        is_missing = self.node_of_subtree[numbers] < 0
        positions = start + first[is_missing]
        nodes = np.arange(self.count, self.count + len(positions))
        self.count += len(nodes)
        self.node_of_subtree[numbers[is_missing]] = nodes
        self.columns.append((forest.op[positions], forest.token[positions], forest.number[positions]))
        children = self.children[positions]
        row, slot = np.nonzero(children >= 0)
        self.edges.append((self.node_of_subtree[forest.subtree[children[row, slot]]], nodes[row], slot))
        return self.node_of_subtree[forest.subtree[start : start + 1]]

    def extend(self, node: tuple[float, ...], children: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Add `count` nodes with the same `node` (op, token, number); return them (count,).

        children: for each slot, one child for all of the nodes, (1,), or one for each, (count,).
        """
        nodes = np.arange(self.count, self.count + count)
        self.count += count
        self.columns.append(tuple(np.full(count, value) for value in node))
        for slot, child in enumerate(children):
            self.edges.append((np.broadcast_to(child, count), nodes, np.full(count, slot)))
        return nodes
