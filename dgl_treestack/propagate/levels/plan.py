"""Where every node of a batch is computed: rows of contiguous buffers, level by level.

    row      0 .. L-1          leaves
             L .. M-1          operators, sorted by level, arity, operator     <- chunks, each with segments of one operator
             M .. R-1          roots of equations, which have no state

A level is what lies equally far above the leaves, so every child's row comes before its parent's.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.forest import NO_OPERATOR
from dgl_treestack.operators import Signature


@dataclass(frozen=True, eq=False)
class Segment:
    """Nodes start .. stop - 1 of a chunk, which share an operator."""

    operator: str
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows start .. stop - 1: nodes n of one level and arity A, by operator.

    nodes: (n,) their numbers in the graph. children: (n * A,) rows of their children, node by node.
    """

    start: int
    stop: int
    arity: int
    nodes: Tensor
    children: Tensor
    segments: tuple[Segment, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """row: (N,) the row of every node. leaves: (L,) the nodes in the first rows. chunks: in the order of computation."""

    row: Tensor
    leaves: Tensor
    chunks: tuple[Chunk, ...]


def make_plan(graph: DGLGraph, signature: Signature) -> Plan:
    """The plan of a batched graph, made on the CPU, its indices on the device of the graph."""

    def placed(indices: np.ndarray) -> Tensor:
        return torch.from_numpy(indices).to(graph.device)

    op, height = graph.ndata["op"].cpu().numpy(), _heights(graph)
    source, target = (ends.cpu().numpy() for ends in graph.edges())
    arity = np.bincount(target, minlength=len(op))
    children = np.full((len(op), int(arity.max(initial=1))), -1)
    children[target, graph.edata["slot"].cpu().numpy()] = source
    root = signature.index[signature.root] if signature.root else NO_OPERATOR
    order = np.lexsort((op, arity, height, _ranks(op, root)))
    row = np.empty(len(op), dtype=np.int64)
    row[order] = np.arange(len(op))
    leaves, inner = int((op == NO_OPERATOR).sum()), len(op) - int((op == root).sum() if root != NO_OPERATOR else 0)
    chunks = []
    for start, stop in _runs(height[order[leaves:inner]], arity[order[leaves:inner]]):
        nodes = order[leaves + start : leaves + stop]
        segments = tuple(Segment(signature.operators[op[nodes[a]]].name, a, b) for a, b in _runs(op[nodes]))
        below = placed(row[children[nodes, : arity[nodes[0]]]].reshape(-1))
        chunks.append(Chunk(leaves + start, leaves + stop, int(arity[nodes[0]]), placed(nodes), below, segments))
    return Plan(placed(row), placed(order[:leaves]), tuple(chunks))


def _ranks(op: np.ndarray, root: int) -> np.ndarray:
    """0 for leaves, 1 for operators, 2 for roots of equations."""
    return np.where(op == NO_OPERATOR, 0, np.where(op == root, 2, 1))


def _runs(*keys: np.ndarray) -> list[tuple[int, int]]:
    """Start and end of every stretch over which all keys stay the same."""
    if not len(keys[0]):
        return []
    changes = np.flatnonzero(np.any([key[1:] != key[:-1] for key in keys], axis=0)) + 1
    cuts = [0, *changes.tolist(), len(keys[0])]
    return list(itertools.pairwise(cuts))


def _heights(graph: DGLGraph) -> np.ndarray:
    """How far every node lies above the leaves below it: kept with the data, else found level by level."""
    if "height" in graph.ndata:
        return graph.ndata["height"].cpu().numpy()
    source, target = (ends.cpu().numpy() for ends in graph.edges())
    height = np.zeros(graph.num_nodes(), dtype=np.int64)
    while True:
        higher = np.zeros_like(height)
        np.maximum.at(higher, target, height[source] + 1)
        if (higher == height).all():
            return height
        height = higher
