r"""Blanks with all their candidates as one graph.

    x*sin(_) = y     candidates, once     what lies between a blank and its root, once per candidate

                     c1  c2  ...    ──►   sin(c1)  sin(c2)  ...   ──►   x*sin(c1)  x*sin(c2)  ...
                                                                          ▲
    everything else, once:  x  y  ────────────────────────────────────────┘

A node may have several parents, so this is no tree, but it is computed like one. The equality is left out: what a model is
asked for are the two sides.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data import graph
from dgl_treestack.data.forest import NO_TOKEN, Forest
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH, Signature

Blank = tuple[Expression, int]  # an equation, and the node that is to be guessed
_NO_EDGES = (np.empty(0, dtype=np.int64),) * 3


class BlankGraphs:
    """Blanks, to be filled with one set of candidates.

    distinct: (C,) for every candidate, which of those it is that a model can tell apart.
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

    def batches(self, most: int) -> Iterator[tuple[DGLGraph, np.ndarray]]:
        """Graphs of at most about so many nodes, blank after blank, and the nodes (blanks, distinct candidates, 2) that are
        the sides of the equations."""
        made, sides = self.base.copy(), list[np.ndarray]()
        for (tree, place), start in zip(self.blanks, self.starts, strict=True):
            sides.append(self._fill(made, tree, place, int(start)))
            if made.count >= most:
                yield made.graph(), np.stack(sides)
                made, sides = self.base.copy(), []
        if sides:
            yield made.graph(), np.stack(sides)

    def _fill(self, made: "_Nodes", tree: Expression, place: int, start: int) -> np.ndarray:
        """(distinct candidates, 2) sides of an equation, whose nodes begin at `start` in the forest."""
        filled, below = self.candidates, place
        count = len(filled)
        for node in _above(tree, place)[:-1]:
            given = [filled if child == below else made.add([start + child]) for child in tree.children(node)]
            filled, below = made.extend((self.signature.index[tree.names[node]], NO_TOKEN, 0.0), given, count), node
        sides = [filled if child == below else made.add([start + child]) for child in tree.children(0)]
        return np.stack([np.broadcast_to(side, count) for side in sides], axis=1)


def _above(tree: Expression, place: int) -> list[int]:
    """The operators above a place, the nearest first, the root last."""
    return [node for node in range(place - 1, -1, -1) if tree.ends[node] > place]


class _Nodes:
    """A graph that grows: subtrees of a forest, each distinct one once, and nodes above them."""

    def __init__(self, forest: Forest):
        self.forest = forest
        self.children = forest.child_table()
        self.count = 0
        self.parts: list[tuple[np.ndarray, ...]] = []  # op, token, number
        self.edges: list[tuple[np.ndarray, ...]] = []  # source, target, slot
        self.node_of_subtree: dict[int, np.ndarray] = {}  # by the number of a subtree

    def copy(self) -> "_Nodes":
        """Another graph that begins like this one."""
        other = _Nodes.__new__(_Nodes)
        other.forest, other.children, other.count = self.forest, self.children, self.count
        other.parts, other.edges, other.node_of_subtree = [*self.parts], [*self.edges], {**self.node_of_subtree}
        return other

    def add(self, places: Sequence[int] | np.ndarray) -> np.ndarray:
        """The nodes (n,) of the subtrees at places of the forest."""
        return np.concatenate([self._subtree(int(place)) for place in places])

    def _subtree(self, place: int) -> np.ndarray:
        number, pending = self.forest.subtree, [place]
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
        return self.node_of_subtree[int(number[place])]

    def extend(self, node: tuple[float, ...], children: Sequence[np.ndarray], count: int) -> np.ndarray:
        """So many nodes alike (op, token, number) above children, slot by slot, one for all of them or one for each."""
        nodes = np.arange(self.count, self.count + count)
        self.count += count
        self.parts.append(tuple(np.full(count, value) for value in node))
        for slot, child in enumerate(children):
            self.edges.append((np.broadcast_to(child, count), nodes, np.full(count, slot)))
        return nodes

    def graph(self) -> DGLGraph:
        """What has grown."""
        op, token, number = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        child, parent, slot = (np.concatenate(column) for column in zip(*self.edges, strict=True)) if self.edges else _NO_EDGES
        return graph.from_columns({"op": op, "token": token, "number": number}, (child, parent, slot))
