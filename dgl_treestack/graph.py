"""Forests and expressions as one batched DGLGraph, and back.

One node per operator or leaf, edges from child to parent. Node features `op`, `token`, `number`, `leaf`, `height`, `turn` (see
`forest.turn_after`), and `subtree`, by which equal subtrees are known: who changes one of the others removes it. Edge feature
`slot`: which argument the child is. Child order is in `slot` alone, never in the order of the edges.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.expression import Equation, Expression, assemble
from dgl_treestack.forest import Forest
from dgl_treestack.operators import MATH, Signature
from dgl_treestack.vocabulary import Vocabulary

NODE_FEATURES = ("op", "token", "number", "leaf", "height", "turn", "subtree")


def build(forest: Forest, trees: np.ndarray | Sequence[int] | None = None) -> DGLGraph:
    """One batched graph of a forest, or of some of its trees; nodes in pre-order, tree after tree."""
    batch = forest if trees is None else forest.select(trees)
    children = np.flatnonzero(batch.parent >= 0)
    edges = torch.from_numpy(children), torch.from_numpy(batch.parents[children])
    graph = _dgl.graph(edges, num_nodes=int(batch.offsets[-1]))
    graph.set_batch_num_nodes(torch.from_numpy(batch.sizes))
    graph.set_batch_num_edges(torch.from_numpy(batch.sizes - 1))
    for name in NODE_FEATURES:
        graph.ndata[name] = torch.from_numpy(getattr(batch, name).copy())
    graph.edata["slot"] = torch.from_numpy(batch.slot[children])
    return graph


def from_columns(nodes: Mapping[str, np.ndarray], edges: tuple[np.ndarray, np.ndarray, np.ndarray]) -> DGLGraph:
    """A graph of any nodes, which may have several parents. nodes: features (N,). edges: child, parent, slot (E,)."""
    source, target, slot = map(torch.from_numpy, edges)
    graph = _dgl.graph((source, target), num_nodes=len(nodes["op"]))
    for name, values in nodes.items():
        graph.ndata[name] = torch.from_numpy(values)
    graph.edata["slot"] = slot
    return graph


def from_expressions(trees: Sequence[Expression], vocabulary: Vocabulary, signature: Signature = MATH) -> DGLGraph:
    """One batched graph of expressions. Use a `Forest` for a data set; this is for a handful of trees."""
    return build(Forest.build(trees, vocabulary, signature))


def to_expressions(graph: DGLGraph, leaves: Sequence[tuple[str, str]], signature: Signature = MATH) -> list[Expression]:
    """The trees of a batched graph, whatever the order of its nodes and edges within a tree.

    leaves: the table that node feature `leaf` points into (`Forest.leaves`).
    """
    operators, written = graph.ndata["op"].tolist(), graph.ndata["leaf"].tolist()
    children = _children(graph)
    trees: list[Expression] = []
    for root in roots(graph).tolist():
        nodes: list[tuple[str, str | None, int]] = []
        pending = [root]
        while pending:
            node = pending.pop()
            pending.extend(reversed(children[node]))
            if operators[node] < 0:
                nodes.append((*leaves[written[node]], 0))
            else:
                nodes.append((signature.names[operators[node]], None, len(children[node])))
        tree = assemble(nodes, signature)
        is_equation = tree.names[0] == signature.root
        trees.append(Equation(tree.names, tree.texts, tree.arities, signature) if is_equation else tree)
    return trees


def _children(graph: DGLGraph) -> list[list[int]]:
    sources, targets = (end.tolist() for end in graph.edges(order="eid"))
    slots = graph.edata["slot"].tolist()
    found: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes())]
    for source, target, slot in zip(sources, targets, slots, strict=True):
        found[target].append((slot, source))
    return [[child for _, child in sorted(places)] for places in found]


def roots(graph: DGLGraph) -> Tensor:
    """(B,) the root of every tree, in batch order."""
    return torch.nonzero(graph.out_degrees() == 0).squeeze(1)


def child_table(graph: DGLGraph) -> Tensor:
    """(N, A) the child of every node in every slot, -1 where there is none; A is the largest arity."""
    sources, targets = graph.edges(order="eid")
    slots = graph.edata["slot"]
    width = int(slots.max()) + 1 if len(slots) else 1
    table = torch.full((graph.num_nodes(), width), -1, dtype=torch.int64, device=slots.device)
    table[targets, slots] = sources
    return table
