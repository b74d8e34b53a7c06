"""Where every node of a batch is computed: rows of contiguous buffers, turn by turn.

    row      0 .. L-1          distinct leaves
             L .. R-2          operators, sorted by turn, arity, operator      <- chunks, each with segments of one operator
             R-1               nothing: roots of equations, which have no state

Turns rise from the leaves (`forest.turn_after`): every child's row comes before its parent's, and at a turn operators of odd
or of even arity are computed, not both. Equal subtrees have equal states: shared, they have one row, and `row` leads from the
nodes of the trees to the rows.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.forest import NO_OPERATOR, turn_after
from dgl_treestack.graph import child_table
from dgl_treestack.operators import Signature

MOST_ROWS = 1024  # of a chunk, so that what a step holds in passing is bounded


class Segment(NamedTuple):
    """Rows start .. stop - 1 of a chunk, which share an operator."""

    operator: str
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows start .. stop - 1: n subtrees of one turn and arity A, by operator.

    nodes: (n,) a node of the graph for each. children: (n * A,) rows of their children, node by node.
    """

    start: int
    stop: int
    arity: int
    nodes: Tensor
    children: Tensor
    segments: tuple[Segment, ...]

    @cached_property
    def sizes(self) -> list[int]:
        """Rows of every segment."""
        return [segment.stop - segment.start for segment in self.segments]


@dataclass(frozen=True, eq=False)
class Plan:
    """rows: R. row: (N,) the row of every node. token, number: (L,) the leaves. chunks: in order of computation.

    operators: those that occur in chunks. width: the largest number of children.
    """

    rows: int
    row: Tensor
    token: Tensor
    number: Tensor
    chunks: tuple[Chunk, ...]
    operators: tuple[str, ...]
    width: int


class Plans:
    """The plans of a batched graph, made when they are first asked for and kept. share: equal subtrees may have one row."""

    def __init__(self, graph: DGLGraph, signature: Signature, *, share: bool = True):
        self.graph, self.signature, self.share = graph, signature, share
        self.made: dict[tuple[bool, torch.device], Plan] = {}

    def get(self, *, shared: bool, device: torch.device) -> Plan:
        """The plan with its indices on a device."""
        shared = shared and self.share
        if (shared, device) not in self.made:
            self.made[shared, device] = make_plan(self.graph, self.signature, shared=shared, device=device)
        return self.made[shared, device]


def make_plan(graph: DGLGraph, signature: Signature, *, shared: bool, device: torch.device) -> Plan:
    """The plan of a batched graph, made on the CPU, its indices on a device.

    shared: one row for all equal subtrees; without it only leaves share rows. Node feature `subtree` says which are equal;
    where it is absent, none are.
    """

    def placed(indices: np.ndarray) -> Tensor:
        return torch.from_numpy(indices).to(device, non_blocking=True)

    op, children = graph.ndata["op"].cpu().numpy(), child_table(graph).cpu().numpy()
    arity = (children >= 0).sum(1)
    turn = _turns(graph, arity)
    root = signature.index[signature.root] if signature.root else NO_OPERATOR - 1
    order, first = _grouped(graph, (_ranks(op, root), turn, arity, op), shared)
    row = np.empty(len(op), dtype=np.int64)
    row[order] = np.cumsum(first) - 1
    own = order[first & (op[order] != root)]
    row[op == root] = len(own)
    leaves = int((op[own] == NO_OPERATOR).sum())
    inner = own[leaves:]
    chunks = []
    for start, stop in _runs(turn[inner], arity[inner], most=MOST_ROWS):
        nodes = inner[start:stop]
        segments = tuple(Segment(signature.operators[op[nodes[a]]].name, a, b) for a, b in _runs(op[nodes]))
        width = int(arity[nodes[0]])
        below = placed(row[children[nodes, :width]].reshape(-1))
        chunks.append(Chunk(leaves + start, leaves + stop, width, placed(nodes), below, segments))
    of_leaves = own[:leaves]
    return Plan(
        rows=len(own) + 1,
        row=placed(row),
        token=placed(graph.ndata["token"].cpu().numpy()[of_leaves]),
        number=placed(graph.ndata["number"].cpu().numpy()[of_leaves]),
        chunks=tuple(chunks),
        operators=tuple(signature.operators[i].name for i in np.unique(op[inner])),
        width=children.shape[1],
    )


def _grouped(graph: DGLGraph, kinds: tuple[np.ndarray, ...], shared: bool) -> tuple[np.ndarray, np.ndarray]:
    """The nodes (N,) by rank, turn, arity and operator, and (N,) whether each is the first of its row."""
    op, first = kinds[-1], np.ones(len(kinds[-1]), dtype=bool)
    if "subtree" not in graph.ndata:
        return np.lexsort(kinds[::-1]), first
    number = graph.ndata["subtree"].cpu().numpy()
    order = np.argsort(number, kind="stable")
    first[1:] = number[order[1:]] != number[order[:-1]]
    return order, first if shared else first | (op[order] != NO_OPERATOR)


def _ranks(op: np.ndarray, root: int) -> np.ndarray:
    """0 for leaves, 1 for operators, 2 for roots of equations."""
    return np.where(op == NO_OPERATOR, 0, np.where(op == root, 2, 1))


def _runs(*keys: np.ndarray, most: int = 0) -> list[tuple[int, int]]:
    """Start and end of every stretch over which all keys stay the same, of at most so many rows."""
    if not len(keys[0]):
        return []
    changes = np.flatnonzero(np.any([key[1:] != key[:-1] for key in keys], axis=0)) + 1
    cuts = [0, *changes.tolist(), len(keys[0])]
    if not most:
        return list(itertools.pairwise(cuts))
    return [(a, min(a + most, stop)) for start, stop in itertools.pairwise(cuts) for a in range(start, stop, most)]


def _turns(graph: DGLGraph, arity: np.ndarray) -> np.ndarray:
    """When every node is computed: kept with the data, else found level by level."""
    if "turn" in graph.ndata:
        return graph.ndata["turn"].cpu().numpy()
    source, target = (ends.cpu().numpy() for ends in graph.edges())
    turn = np.zeros(graph.num_nodes(), dtype=np.int64)
    while True:
        latest = np.zeros_like(turn)
        np.maximum.at(latest, target, turn[source])
        found = np.where(arity > 0, turn_after(latest, arity), 0)
        if (found == turn).all():
            return turn
        turn = found
