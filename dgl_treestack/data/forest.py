"""A data set of trees in memory: flat arrays over all nodes, with offsets.

Nodes of a tree are in pre-order. Batches are cut from the arrays without a Python loop over trees or nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.expression import Expression, leaf_value
from dgl_treestack.expression.operators import MATH, Signature

NO_OPERATOR = -1  # `op` of a leaf
NO_TOKEN = -1  # `token` of an operator and of a leaf that the number encoder embeds
COLUMNS = ("op", "token", "number", "leaf", "parent", "slot", "height", "turn", "subtree")
NODE = np.dtype([(name, np.float64 if name == "number" else np.int64) for name in COLUMNS])


class _Column:
    """A field of all nodes (N,), a view."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, forest: "Forest", owner: type) -> np.ndarray:
        found: np.ndarray = forest.nodes[self.name]
        return found


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as columns. N nodes in all, G trees.

    nodes: (N,) records of the columns, so that a batch finds all of a tree in one place.
    offsets: (G + 1,) tree g is nodes offsets[g] : offsets[g + 1].

    op: (N,) position of the operator in `signature`, -1 at leaves.
    token: (N,) row of the embedding table, -1 at operators and at leaves that go through the number encoder.
    number: (N,) value of the leaves that go through the number encoder, else 0.
    leaf: (N,) position in `leaves` of the leaf as it was written, -1 at operators.
    parent: (N,) parent, counted within the tree, -1 at the root.  slot: (N,) which argument of the parent, 0 at the root.
    height: (N,) depth of the subtree.  turn: (N,) see `turn_after`, 0 at leaves.
    subtree: (N,) number of the subtree, the same wherever the same subtree stands, of whatever tree. Leaves have the smallest
    numbers, then operators by turn, arity and operator, then equations.
    """

    signature: Signature
    leaves: tuple[tuple[str, str], ...]
    nodes: np.ndarray
    offsets: np.ndarray

    op, token, number, leaf, parent, slot, height, turn, subtree = (_Column() for _ in COLUMNS)

    @classmethod
    def build(cls, trees: Sequence[Expression], vocabulary: Vocabulary, signature: Signature = MATH) -> "Forest":
        """The columns of trees. Raises VocabularyError for a leaf that the vocabulary has no row for."""
        table: dict[tuple[str, str], tuple[int, int, float]] = {}  # leaf -> position, token, number
        subtrees = _Subtrees(signature)
        rows: list[tuple] = []
        offsets = [0]
        for tree in trees:
            parents, slots = _places(tree)
            places: list[tuple[int, int, float, int]] = []  # op, token, number, leaf
            for name, text in zip(tree.names, tree.texts, strict=True):
                if text is None:
                    places.append((signature.index[name], NO_TOKEN, 0.0, -1))
                    continue
                if (name, text) not in table:
                    table[name, text] = (len(table), *_encode(vocabulary, name, text))
                position, token, number = table[name, text]
                places.append((NO_OPERATOR, token, number, position))
            turns = _turns(tree)
            of_tree = parents, slots, tree.heights, turns, subtrees.add(tree, places, turns)
            rows.extend(zip(*zip(*places, strict=True), *of_tree, strict=True))
            offsets.append(len(rows))
        nodes = np.array(rows, dtype=NODE)
        nodes["subtree"] = subtrees.in_order()[nodes["subtree"]]
        return cls(signature, tuple(table), nodes, np.array(offsets, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """(G,) nodes per tree."""
        return np.diff(self.offsets)

    @property
    def depths(self) -> np.ndarray:
        """(G,) depth per tree."""
        return self.height[self.offsets[:-1]]

    def select(self, trees: np.ndarray | Sequence[int]) -> "Forest":
        """The forest of the given trees, in that order; a tree may be given more than once."""
        trees = np.asarray(trees, dtype=np.int64)
        sizes = self.sizes[trees]
        offsets = np.zeros(len(trees) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        nodes = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][trees] - offsets[:-1], sizes)
        return Forest(self.signature, self.leaves, self.nodes.take(nodes), offsets)

    def child_table(self) -> np.ndarray:
        """(N, A) the child of every node in every slot, counted over all nodes, or -1; A is the largest arity."""
        children = np.flatnonzero(self.parent >= 0)
        table = np.full((len(self.parent), int(self.slot.max(initial=0)) + 1), -1, dtype=np.int64)
        table[self.parents.take(children), self.slot.take(children)] = children
        return table

    @property
    def parents(self) -> np.ndarray:
        """(N,) parents, counted over all nodes; at roots, something else."""
        return self.parent + np.repeat(self.offsets[:-1], self.sizes)

    @cached_property
    def sides(self) -> np.ndarray:
        """(G, 2) the first two children of every root, counted within the tree, or -1."""
        found = np.full((len(self), 2), -1, dtype=np.int64)
        children = np.flatnonzero((self.parent == 0) & (self.slot < 2))
        tree = np.searchsorted(self.offsets, children, side="right") - 1
        found[tree, self.slot[children]] = children - self.offsets[tree]
        return found

    def expression(self, i: int) -> Expression:
        """Tree i, as it was written."""
        span = slice(self.offsets[i], self.offsets[i + 1])
        parents = self.parent[span]
        arities = np.bincount(parents[parents >= 0], minlength=len(parents))
        nodes: list[tuple[str, str | None, int]] = []
        for op, leaf, arity in zip(self.op[span], self.leaf[span], arities, strict=True):
            name, text = (self.signature.names[op], None) if leaf < 0 else self.leaves[leaf]
            nodes.append((name, text, int(arity)))
        return Expression.from_nodes(nodes, self.signature)


class _Subtrees:
    """Hash-consing: a number for every distinct subtree."""

    def __init__(self, signature: Signature):
        self.root = signature.index[signature.root] if signature.root else NO_OPERATOR
        self.numbers: dict[tuple, int] = {}
        self.kinds: list[tuple[int, int, int, int]] = []  # per subtree: 0 leaf, 1 operator or 2 equation; turn, arity, op

    def add(self, tree: Expression, places: Sequence[tuple[int, int, float, int]], turns: Sequence[int]) -> list[int]:
        """The numbers of all nodes of a tree, counted as they are first seen."""
        found = [0] * tree.size
        for node in range(tree.size - 1, -1, -1):  # pre-order backwards: children before parents
            op, token, number, _ = places[node]
            below = tuple(found[child] for child in tree.children(node))
            key = (op, *below) if op != NO_OPERATOR else (op, token, number)
            if key not in self.numbers:
                self.numbers[key] = len(self.numbers)
                rank = 0 if op == NO_OPERATOR else 2 if op == self.root else 1
                self.kinds.append((rank, turns[node], len(below), op))
            found[node] = self.numbers[key]
        return found

    def in_order(self) -> np.ndarray:
        """What every number becomes when subtrees are counted by kind."""
        kinds = np.array(self.kinds, dtype=np.int64).reshape(-1, 4)
        places = np.empty(len(kinds), dtype=np.int64)
        places[np.lexsort(kinds.T[::-1])] = np.arange(len(kinds))
        return places


def turn_after(latest: Any, arity: Any) -> Any:
    """When an operator is computed whose last child is computed at turn `latest`; numbers, or arrays of them.

    Operators of odd and of even arity take turns: each has the next turn of its kind. So a batch has fewer turns than twice its
    levels, and at a turn more operators are alike.
    """
    return latest + 1 + (latest + 1 - arity) % 2


def _turns(tree: Expression) -> list[int]:
    """Per node, when it is computed."""
    found = [0] * tree.size
    for node in range(tree.size - 1, -1, -1):  # pre-order backwards: children before parents
        if tree.arities[node]:
            found[node] = turn_after(max(found[child] for child in tree.children(node)), tree.arities[node])
    return found


def _places(tree: Expression) -> tuple[list[int], list[int]]:
    """Per node, its parent (-1 at the root) and its slot."""
    parents, slots = [-1] * tree.size, [0] * tree.size
    for node in range(tree.size):
        for slot, child in enumerate(tree.children(node)):
            parents[child], slots[child] = node, slot
    return parents, slots


def _encode(vocabulary: Vocabulary, kind: str, text: str) -> tuple[int, float]:
    row = vocabulary.row(kind, text)
    if row is not None:
        return row, 0.0
    value = leaf_value(kind, text)
    assert value is not None  # the vocabulary has refused everything else
    return NO_TOKEN, float(value)
