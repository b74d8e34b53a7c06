"""Where every node of a batch is computed: rows of contiguous buffers, turn by turn.

    row      0 .. L-1          distinct leaves
             L .. R-2          operators, sorted by turn, arity, operator      <- chunks, each with segments of one operator
             R-1               nothing: roots of equations, which have no state

Turns rise from the leaves (`forest.turn_after`): every child's row comes before its parent's, and at a turn operators of odd
or of even arity are computed, not both. Equal subtrees have equal states: shared, they have one row, and `row` leads from the
nodes of the trees to the rows.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.data.columns import Columns, Source, columns
from dgl_treestack.data.forest import NO_OPERATOR, Forest
from dgl_treestack.data.wellformed import Checked
from dgl_treestack.expression.operators import Signature

MOST_ROWS = 1024  # of a chunk, so that what a step holds in passing is bounded


class Chunk(NamedTuple):
    """Rows start .. stop - 1: n subtrees of one turn and arity A, in segments of one operator each.

    nodes: (n,) a node of the graph for each. children: (n * A,) rows of their children, node by node. operators, sizes: of
    every segment, and how many rows it has.
    """

    start: int
    stop: int
    arity: int
    nodes: Tensor
    children: Tensor
    operators: tuple[str, ...]
    sizes: tuple[int, ...]


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
    """Plans of batches. share: equal subtrees may have one row.

    The plan of a forest is made when it is first asked for, and kept; that of a graph is made anew every time, because graphs
    may be changed. forests: those of batches that were made together; when the plan of one is asked for, those of all are made.
    """

    def __init__(self, signature: Signature, forests: Sequence[Forest] = (), *, share: bool = True):
        self.signature, self.forests, self.share = signature, forests, share
        self.made: dict[tuple[Forest, bool, torch.device], Plan] = {}

    def get(
        self,
        source: Source,
        *,
        shared: bool,
        device: torch.device,
        drawn_by: np.ndarray | None = None,
        checked: Checked | None = None,
    ) -> Plan:
        """The plan with its indices on a device.

        drawn_by: (N,) subtrees by which dropout was drawn. Where a graph was changed since, no rows are shared.
        checked: a graph after its check, which is made here otherwise.
        """
        shared = shared and self.share
        if not isinstance(source, Forest):
            nodes = columns(source, self.signature, checked=checked)
            shared = shared and (drawn_by is None or _is_constant_on_classes(drawn_by, nodes.subtree))
            return make_plan(nodes, self.signature, shared=shared, device=device)
        if (source, shared, device) not in self.made:
            for forest in self.forests if source in self.forests else [source]:
                plan = make_plan(columns(forest, self.signature), self.signature, shared=shared, device=device)
                self.made[forest, shared, device] = plan
        return self.made[source, shared, device]


def _is_constant_on_classes(values: np.ndarray, classes: np.ndarray) -> bool:
    """Whether nodes of the same class have the same value; both (N,)."""
    representative = np.zeros(int(classes.max(initial=0)) + 1, dtype=values.dtype)
    representative[classes] = values
    return bool((representative[classes] == values).all())


def make_plan(nodes: Columns, signature: Signature, *, shared: bool, device: torch.device) -> Plan:
    """The plan of a batch, made on the CPU, its indices on a device.

    shared: one row for all equal subtrees; without it only leaves share rows.
    """

    def placed(indices: np.ndarray) -> Tensor:
        return torch.from_numpy(indices).to(device, non_blocking=True)

    op, children, width = nodes.op, nodes.children, nodes.children.shape[1]
    root = signature.index[signature.root] if signature.root else NO_OPERATOR - 1
    arity = (children >= 0).sum(1)
    turn = nodes.turn
    order, first = _grouped(nodes, shared)
    row = np.empty(len(op), dtype=np.int64)
    row[order] = first.cumsum() - 1
    own = order[first & (op[order] != root)]
    row[op == root] = len(own)
    leaves = int((op[own] == NO_OPERATOR).sum())
    inner, of_leaves = own[leaves:], own[:leaves]
    turn, arity, op, children = turn.take(inner), arity.take(inner), op.take(inner), children.take(inner, 0)
    inner_nodes, below = placed(inner), placed(row[children[children >= 0]])
    chunks, edge = [], 0
    for start, stop, count, operators, sizes in _chunks(turn, arity, op, signature):
        edges = slice(edge, edge := edge + (stop - start) * count)
        chunks.append(Chunk(leaves + start, leaves + stop, count, inner_nodes[start:stop], below[edges], operators, sizes))
    return Plan(
        rows=len(own) + 1,
        row=placed(row),
        token=placed(nodes.token.take(of_leaves)),
        number=placed(nodes.number.take(of_leaves)),
        chunks=tuple(chunks),
        operators=tuple(dict.fromkeys(itertools.chain(*(chunk.operators for chunk in chunks)))),
        width=width,
    )


def _grouped(nodes: Columns, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    """The nodes (N,), leaves, operators by turn, arity and operator, roots; and (N,) whether each is the first of its row."""
    order = nodes.subtree.argsort(kind="stable")  # which are numbered in this order
    number = nodes.subtree[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = number[1:] != number[:-1]
    return order, first if shared else first | (nodes.op[order] != NO_OPERATOR)


def _chunks(
    turn: np.ndarray, arity: np.ndarray, op: np.ndarray, signature: Signature
) -> Iterator[tuple[int, int, int, tuple[str, ...], tuple[int, ...]]]:
    """Of every chunk of operators (n,) in order: start, end, arity; operators and sizes of its segments."""
    if not len(op):
        return
    new_chunk = (turn[1:] != turn[:-1]) | (arity[1:] != arity[:-1])
    new_segment = new_chunk | (op[1:] != op[:-1])
    runs = itertools.pairwise([0, *(np.flatnonzero(new_chunk) + 1).tolist(), len(op)])
    starts = [start for run in runs for start in range(*run, MOST_ROWS)]
    cuts = sorted({*starts, *(np.flatnonzero(new_segment) + 1).tolist()})
    operators = tuple([signature.names[i] for i in op.take(cuts).tolist()])
    sizes = tuple([end - start for start, end in itertools.pairwise([*cuts, len(op)])])
    segments = itertools.pairwise([*(bisect_left(cuts, start) for start in starts), len(cuts)])
    spans = itertools.pairwise([*starts, len(op)])
    for (start, stop), count, (a, b) in zip(spans, arity.take(starts).tolist(), segments, strict=True):
        yield start, stop, count, operators[a:b], sizes[a:b]
