"""A data set of trees in memory, as flat arrays over all nodes with offsets; and the arrays of a forest or a graph.

The nodes of a tree are in pre-order. A batch is selected from the arrays without a Python loop over trees or nodes.

A cell runs over a forest or over a batched graph. A forest stores the height of every node and which subtrees are equal. For a
graph both are computed at every call from its current features and edges, because a user may have built or changed it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.vocabulary import NO_OPERATOR, NO_TOKEN, Vocabulary
from dgl_treestack.errors import ConfigurationError, ExpressionError, unknown
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH, Signature

if TYPE_CHECKING:
    from dgl_treestack.data.wellformed import Checked

Function = TypeVar("Function", bound=Callable)
Source: TypeAlias = "DGLGraph | Forest"
CODE = np.dtype([("token", np.int64), ("number", np.float64)])
NODE = np.dtype([(name, np.int64) for name in ("op", "slot", "height", "parent", "leaf", "subtree")])


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as columns: G trees with N nodes in all.

    offsets: (G + 1,) tree g is nodes offsets[g] : offsets[g + 1].
    nodes: (N,) records of the columns, so that the data of a tree are contiguous in memory.
    They may be mapped from a file, and of smaller types; `select` returns a forest in memory.
    codes: (L + 1,) token and number of every leaf, and last those of operators.

    op: (N,) index of the operator in `signature`, -1 at leaves.
    token: (N,) row of the embedding table, -1 at operators and at leaves that go through the number encoder.
    number: (N,) value of the leaves that go through the number encoder, else 0.
    leaf: (N,) index in `leaves` of the class and text of a leaf, -1 at operators.
    parent: (N,) index of the parent within the tree, -1 at the root.  slot: (N,) argument index in the parent, 0 at the root.
    height: (N,) depth of the subtree, which is the level at which an engine computes the node.
    subtree: (N,) id of the subtree; equal subtrees have equal ids, in all trees. Leaves have the smallest ids, then operators
    ordered by height, arity and operator, then equations.
    """

    signature: Signature
    leaves: tuple[tuple[str, str], ...]
    nodes: np.ndarray
    offsets: np.ndarray
    codes: np.ndarray

    op = property(lambda forest: forest.nodes["op"])
    token = property(lambda forest: forest.codes["token"].take(forest.leaf))  # at an operator the last one
    number = property(lambda forest: forest.codes["number"].take(forest.leaf))
    leaf = property(lambda forest: forest.nodes["leaf"])
    parent = property(lambda forest: forest.nodes["parent"])
    slot = property(lambda forest: forest.nodes["slot"])
    height = property(lambda forest: forest.nodes["height"])
    subtree = property(lambda forest: forest.nodes["subtree"])

    @classmethod
    def build(cls, trees: Sequence[Expression], vocabulary: Vocabulary, signature: Signature | None = None) -> "Forest":
        """Build the columns of trees. Equal subtrees are found by hash-consing.

        signature: of all trees; by default that of the first one, or mathematics. Raises VocabularyError for a leaf that the
        vocabulary has no row for, ExpressionError for an operator that the signature does not have.
        """
        signature = signature or (trees[0].signature if trees else MATH)
        codes: dict[tuple[str, str], tuple[int, int, float]] = {}  # leaf -> its index, token and number
        ids: dict[tuple, int] = {}  # operator and subtrees of the children, or token and number of a leaf -> subtree
        rows: list[tuple] = []
        offsets = [0]
        for tree in trees:
            for _, kind, leaf_text in tree.leaves():
                if (kind, leaf_text) not in codes:
                    codes[kind, leaf_text] = len(codes), *vocabulary.code(kind, leaf_text)
            ops, leaves = [NO_OPERATOR] * tree.size, [-1] * tree.size
            parents, slots, subtrees = [-1] * tree.size, [0] * tree.size, [0] * tree.size
            complete: list[int] = []  # roots of the subtrees whose parent comes next, in reversed order
            for node in range(tree.size - 1, -1, -1):  # pre-order reversed: children before parents
                name, text = tree.names[node], tree.texts[node]
                children = [complete.pop() for _ in range(tree.arities[node])]
                if text is None:
                    if name not in signature.index:
                        raise ExpressionError(f"{unknown('operator', name, signature.index)} They are of {signature.name!r}.")
                    ops[node] = signature.index[name]
                    key: tuple = (ops[node], *[subtrees[child] for child in children])
                else:
                    leaves[node], *code = codes[name, text]
                    key = (NO_OPERATOR, *code)
                for slot, child in enumerate(children):
                    parents[child], slots[child] = node, slot
                subtrees[node] = ids.setdefault(key, len(ids))
                complete.append(node)
            rows.extend(zip(ops, slots, tree.heights, parents, leaves, subtrees, strict=True))
            offsets.append(len(rows))
        nodes = np.array(rows, dtype=NODE)
        code_of_leaf = np.array([*((token, number) for _, token, number in codes.values()), (NO_TOKEN, 0.0)], dtype=CODE)
        arity = np.array([count for tree in trees for count in tree.arities], dtype=np.int64)
        nodes["subtree"] = in_order_of_kinds(nodes["subtree"], nodes["op"], nodes["height"], arity, signature)
        return cls(signature, tuple(codes), nodes, np.array(offsets, dtype=np.int64), code_of_leaf)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """(G,) nodes per tree."""
        return np.diff(self.offsets)

    def edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return child, parent and slot of every edge, (N - G,) each, as nodes of the whole forest."""
        child = np.flatnonzero(self.parent >= 0)
        parent = self.parent.take(child) + np.repeat(self.offsets[:-1], self.sizes - 1)  # one root per tree
        return child, parent, self.slot.take(child)

    @property
    def depths(self) -> np.ndarray:
        """(G,) depth per tree."""
        return self.height[self.offsets[:-1]].astype(np.int64)  # in a file it is of 8 bits, which calculations overflow

    def select(self, trees: np.ndarray | Sequence[int]) -> "Forest":
        """The forest of the trees at these indices, in this order; an index may be repeated."""
        trees = np.asarray(trees, dtype=np.int64)
        starts, ends = self.offsets[:-1][trees], self.offsets[1:][trees]
        offsets = np.zeros(len(trees) + 1, dtype=np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        nodes = self.nodes.take(np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], ends - starts))
        return Forest(self.signature, self.leaves, nodes.astype(NODE, copy=False), offsets, self.codes)

    def expression(self, i: int) -> Expression:
        """Tree i as an expression."""
        span = slice(self.offsets[i], self.offsets[i + 1])
        parents = self.parent[span]
        arities = np.bincount(parents[parents >= 0], minlength=len(parents))
        nodes: list[tuple[str, str | None, int]] = []
        for op, leaf, arity in zip(self.op[span], self.leaf[span], arities, strict=True):
            name, text = (self.signature.names[op], None) if leaf < 0 else self.leaves[leaf]
            nodes.append((name, text, int(arity)))
        return Expression.from_nodes(nodes, self.signature)


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


def uncompiled(function: Function) -> Function:
    """Decorate a function that `torch.compile` shall call and not trace: it would run NumPy's operations as those of torch."""

    @wraps(function)
    def call(*arguments: Any, **settings: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return torch.compiler.disable(function)(*arguments, **settings)  # as a decorator it would import Dynamo: 3 s
        return function(*arguments, **settings)

    return cast(Function, call)


@uncompiled
def columns(source: Source, signature: Signature, tokens: int | None = None, *, checked: "Checked | None" = None) -> Columns:
    """The columns of a forest, or of a graph, which is checked first.

    tokens: rows of the embedding table, None if unknown. checked: the result of `check` for this graph, to skip the check.
    Raises GraphError for a graph that is not well formed.
    """
    if not isinstance(source, Forest):
        from dgl_treestack.data.wellformed import check, numbered_subtrees  # here, since that module needs this one

        checked = checked or check(source, signature, tokens)
        return Columns(*checked[:5], numbered_subtrees(checked, signature))
    child, parent, slot = source.edges()
    children = np.full((len(source.nodes), int(source.slot.max(initial=0)) + 1), -1, dtype=np.int64)
    children[parent, slot] = child
    return Columns(source.op, source.token, source.number, children, source.height, source.subtree)


def size(source: Source) -> int:
    """Number of nodes."""
    return len(source.nodes) if isinstance(source, Forest) else source.num_nodes()


def feature(source: Source, name: str) -> Tensor:
    """(N, ...) feature of all nodes of a graph. Raises ConfigurationError if the source is a forest or lacks the feature."""
    if isinstance(source, Forest) or name not in source.ndata:
        raise ConfigurationError(f"Nodes have no feature {name!r} here. Put it on the graph: graph.ndata[{name!r}] = tensor.")
    values: Tensor = source.ndata[name]
    return values


def in_order_of_appearance(subtree: np.ndarray) -> np.ndarray:
    """(N,) subtree ids numbered from 0 in order of first appearance, so that a forest and its graph have equal ids."""
    _, first, ids = np.unique(subtree, return_index=True, return_inverse=True)
    renumbered = np.empty(len(first), dtype=np.int64)
    renumbered[first.argsort()] = np.arange(len(first))
    return renumbered[ids]


def kinds_of(op: np.ndarray, height: np.ndarray, arity: np.ndarray, signature: Signature) -> np.ndarray:
    """(S, 4) what ids of subtrees are ordered by: 0 for a leaf, 1 operator, 2 equation; height; arity; operator."""
    return np.stack([np.where(op == NO_OPERATOR, 0, 1 + (op == signature.root_index)), height, arity, op], axis=1)


def in_order_of_kinds(
    subtree: np.ndarray, op: np.ndarray, height: np.ndarray, arity: np.ndarray, signature: Signature
) -> np.ndarray:
    """(N,) ids of subtrees numbered by their kinds (`kinds_of`), those of one kind in the order of the ids given."""
    node = np.empty(int(subtree.max(initial=-1)) + 1, dtype=np.int64)  # a node of every subtree
    node[subtree] = np.arange(len(subtree))
    ids = np.empty_like(node)
    # the last key counts most; the sort is stable
    ids[np.lexsort(kinds_of(op[node], height[node], arity[node], signature).T[::-1])] = np.arange(len(node))
    return ids[subtree]
