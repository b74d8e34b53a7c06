r"""Blanks with all their candidates as one graph.

    x*sin(_) = y     candidates, once     the nodes between a blank and its root, once per candidate

                     c1  c2  ...    ──►   sin(c1)  sin(c2)  ...   ──►   x*sin(c1)  x*sin(c2)  ...
                                                                          ▲
    everything else, once:  x  y  ────────────────────────────────────────┘

A node may have several parents, so this is not a tree, but it is computed like one. The graph has no equality: the task reads
the states of the two sides.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data import graph
from dgl_treestack.data.forest import Forest, columns
from dgl_treestack.data.vocabulary import NO_TOKEN, Vocabulary
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH, Signature

Blank = tuple[Expression, int]  # an equation, and the node to predict
_NO_EDGES = (np.empty(0, dtype=np.int64),) * 3


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
        self.candidates = self.base.add(forest.offsets[first])

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
        for node in range(blank - 1, 0, -1):
            if tree.ends[node] > blank:  # an operator above the blank; the nearest comes first
                children = [filled if child == below else nodes.add([start + child]) for child in tree.children(node)]
                values = (self.signature.index[tree.names[node]], NO_TOKEN, 0.0)
                filled, below = nodes.extend(values, children, count), node
        sides = [filled if child == below else nodes.add([start + child]) for child in tree.children(0)]
        return np.stack([np.broadcast_to(side, count) for side in sides], axis=1)


class _Nodes:
    """A growing graph: distinct subtrees of a forest, and nodes above them."""

    def __init__(self, forest: Forest):
        self.forest = forest
        self.children = columns(forest, forest.signature).children
        self.count = 0
        self.columns: list[tuple[np.ndarray, ...]] = []  # op, token, number
        self.edges: list[tuple[np.ndarray, ...]] = []  # source, target, slot
        self.node_of_subtree: dict[int, np.ndarray] = {}  # by the number of a subtree

    def copy(self) -> "_Nodes":
        """Return a copy that can grow independently."""
        copy = _Nodes.__new__(_Nodes)
        copy.forest, copy.children, copy.count = self.forest, self.children, self.count
        copy.columns, copy.edges, copy.node_of_subtree = [*self.columns], [*self.edges], {**self.node_of_subtree}
        return copy

    def add(self, positions: Sequence[int] | np.ndarray) -> np.ndarray:
        """Add missing subtrees; return the nodes (n,) of all. positions: of their roots in the forest."""
        number, pending = self.forest.subtree, [int(position) for position in reversed(positions)]
        while pending:
            top = pending[-1]
            below = [int(child) for child in self.children[top] if child >= 0]
            missing = [child for child in below if int(number[child]) not in self.node_of_subtree]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            if int(number[top]) not in self.node_of_subtree:
                node = self.forest.op[top], self.forest.token[top], self.forest.number[top]
                children = [self.node_of_subtree[int(number[child])] for child in below]
                self.node_of_subtree[int(number[top])] = self.extend(node, children, 1)
        return np.concatenate([self.node_of_subtree[int(number[position])] for position in positions])

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
        child, parent, slot = (np.concatenate(column) for column in zip(*self.edges, strict=True)) if self.edges else _NO_EDGES
        return graph.from_columns({"op": op, "token": token, "number": number}, (child, parent, slot))
