"""A data set of trees in memory: flat arrays over all nodes, with offsets.

Nodes of a tree are in pre-order. Batches are cut from the arrays without a Python loop over trees or nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dgl_treestack.expression import Expression, assemble, leaf_value
from dgl_treestack.operators import MATH, Signature
from dgl_treestack.vocabulary import Vocabulary

NO_OPERATOR = -1  # `op` of a leaf
NO_TOKEN = -1  # `token` of an operator and of a leaf that the number encoder embeds


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as columns. N nodes in all, G trees.

    op: (N,) position of the operator in `signature`, -1 at leaves.
    token: (N,) row of the embedding table, -1 at operators and at leaves that go through the number encoder.
    number: (N,) value of the leaves that go through the number encoder, else 0.
    leaf: (N,) position in `leaves` of the leaf as it was written, -1 at operators.
    parent: (N,) parent, counted within the tree, -1 at the root.  slot: (N,) which argument of the parent, 0 at the root.
    height: (N,) depth of the subtree.  offsets: (G + 1,) tree g is nodes offsets[g] : offsets[g + 1].
    """

    signature: Signature
    leaves: tuple[tuple[str, str], ...]
    op: np.ndarray
    token: np.ndarray
    number: np.ndarray
    leaf: np.ndarray
    parent: np.ndarray
    slot: np.ndarray
    height: np.ndarray
    offsets: np.ndarray

    COLUMNS = ("op", "token", "number", "leaf", "parent", "slot", "height")

    @classmethod
    def build(cls, trees: Sequence[Expression], vocabulary: Vocabulary, signature: Signature = MATH) -> "Forest":
        """The columns of trees. Raises VocabularyError for a leaf that the vocabulary has no row for."""
        table: dict[tuple[str, str], tuple[int, int, float]] = {}  # leaf -> position, token, number
        rows: list[tuple] = []
        offsets = [0]
        for tree in trees:
            parents, slots = _places(tree)
            for i, (name, text) in enumerate(zip(tree.names, tree.texts, strict=True)):
                if text is None:
                    place = (signature.index[name], NO_TOKEN, 0.0, -1)
                else:
                    if (name, text) not in table:
                        table[name, text] = (len(table), *_encode(vocabulary, name, text))
                    position, token, number = table[name, text]
                    place = (NO_OPERATOR, token, number, position)
                rows.append((*place, parents[i], slots[i], tree.heights[i]))
            offsets.append(len(rows))
        columns = zip(*rows, strict=True) if rows else [()] * len(cls.COLUMNS)
        arrays = {
            name: np.array(column, dtype=np.float64 if name == "number" else np.int64)
            for name, column in zip(cls.COLUMNS, columns, strict=True)
        }
        return cls(signature, tuple(table), offsets=np.array(offsets, dtype=np.int64), **arrays)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
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
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        nodes = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][trees] - offsets[:-1], sizes)
        return Forest(
            self.signature, self.leaves, offsets=offsets, **{name: getattr(self, name)[nodes] for name in self.COLUMNS}
        )

    def expression(self, i: int) -> Expression:
        """Tree i, as it was written."""
        span = slice(self.offsets[i], self.offsets[i + 1])
        parents = self.parent[span]
        arities = np.bincount(parents[parents >= 0], minlength=len(parents))
        nodes: list[tuple[str, str | None, int]] = []
        for op, leaf, arity in zip(self.op[span], self.leaf[span], arities, strict=True):
            name, text = (self.signature.operators[op].name, None) if leaf < 0 else self.leaves[leaf]
            nodes.append((name, text, int(arity)))
        return assemble(nodes, self.signature)


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
