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


class BlankGraphs:
    """Graphs of blanks with one set of C candidates.

    distinct: (C,) for every candidate, its position among the candidates that differ for a model.
    Raises VocabularyError for a leaf without a row.
    """

    def __init__(
        self,
        blanks: Sequence[Blank],
        candidates: Sequence[Expression],
        vocabulary: Vocabulary,
        signature: Signature = MATH,
    ):
        self.blanks, self.signature = blanks, signature
        forest = Forest.build([*candidates, *(tree for tree, _ in blanks)], vocabulary, signature)
        self.starts = forest.offsets[len(candidates) : -1]
        _, first, self.distinct = np.unique(
            forest.subtree[forest.offsets[: len(candidates)]], return_index=True, return_inverse=True
        )
        self.base = _Nodes(forest)
        # All candidates at once: node by node, blanks of `completion-deep` took 24 CPU seconds a run in place of 9.
        self.base.add(0, int(forest.offsets[len(candidates)]))
        self.candidates = self.base.node_of_subtree[forest.subtree[forest.offsets[first]]]

    def batches(self, max_nodes: int) -> Iterator[tuple[DGLGraph, np.ndarray]]:
        """Yield graphs of about `max_nodes` nodes at most, with the nodes (blanks, distinct candidates, 2) of the sides.

        Blanks keep their order.
        """
        nodes, sides = self.base.copy(), list[np.ndarray]()
        for (tree, blank), start in zip(self.blanks, self.starts, strict=True):
            sides.append(self._fill(nodes, tree, blank, int(start)))
            if nodes.count >= max_nodes:
                yield nodes.graph(), np.stack(sides)
                nodes, sides = self.base.copy(), []
        if sides:
            yield nodes.graph(), np.stack(sides)

    def _fill(self, nodes: "_Nodes", tree: Expression, blank: int, start: int) -> np.ndarray:
        """Add an equation with every candidate in its blank; return its sides (distinct candidates, 2).

        start: position of the equation's root in the forest.
        """
        filled, below, count = self.candidates, blank, len(self.candidates)
        for node in range(blank - 1, -1, -1):
            if tree.ends[node] > blank:  # an ancestor of the blank; the nearest comes first
                children = [
                    filled if child == below else nodes.add(start + child, start + tree.ends[child])
                    for child in tree.children(node)
                ]
                if node:  # not the equality, whose children are the sides
                    values = (self.signature.index[tree.names[node]], NO_TOKEN, 0.0)
                    filled, below = nodes.extend(values, children, count), node
        return np.stack([np.broadcast_to(side, count) for side in children], axis=1)


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

    def graph(self) -> DGLGraph:
        """Return the nodes added so far."""
        op, token, number = (np.concatenate(column) for column in zip(*self.columns, strict=True))
        child, parent, slot = (np.concatenate(column) for column in zip(*self.edges, strict=True))
        return graph.from_columns({"op": op, "token": token, "number": number}, (child, parent, slot))
