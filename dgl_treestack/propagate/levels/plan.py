"""The plan of a sweep: the row of every node in contiguous buffers, level by level.

    row      0 .. L-1          distinct leaves
             L .. R-2          operators, sorted by level, arity, operator     <- frontiers, each with segments of one operator
             R-1               a row of zeros: the roots of equations, which have no state

The level of a node is its height, so every child's row precedes its parent's. Equal subtrees have equal states and may share a
row; `row` maps the nodes of the trees to rows.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.data.forest import Columns, Forest, Source, columns
from dgl_treestack.data.wellformed import NO_OPERATOR, Checked
from dgl_treestack.expression.operators import Signature


@dataclass(frozen=True)
class Options:
    """Settings of the engine. They affect speed and memory; results change by rounding only.

    share: whether equal subtrees may share a row.
    frontier_rows: maximum rows of a frontier, which bounds the memory of a step's intermediate results.
    recorded_rows: maximum rows of a batch for which eager steps keep autograd's records. Records take several times the memory
    of the buffers; without them backward recomputes every step.
    group: whether eager steps dispatch few operations: the linear maps of a frontier are one batched product, and a stack is
    updated in one piece. None: except on the CPU.
    deferred_rows: maximum rows whose weight gradients are deferred: of a product in eager steps, of a weight in native code.
    deferred_weight: minimum elements of a weight whose gradients native code defers.
    arena_numbers: minimum elements of a tensor in the arena; a smaller tensor comes from torch's allocator.
    arena_bytes: maximum size of a block that is kept from sweep to sweep.
    """

    share: bool = True
    # Steps with 256 and 512 rows were 0.81 and 0.92 times as fast; 768 to 4,096 are within noise.
    frontier_rows: int = 1024
    recorded_rows: int = 2**17
    group: bool | None = None
    deferred_rows: int = 2048
    # Deferral pays for large weights only. Batch 32, over the time of an earlier engine: from 2**13 elements on,
    # Tree-SMU takes 1.23 (here 1.04) and Tree-LSTM 1.28 (1.07); without any, the second-order Tree-RNN 1.10 (1.04).
    deferred_weight: int = 2**16
    arena_numbers: int = 2**14
    arena_bytes: int = 2**31


class Frontier(NamedTuple):
    """Rows start .. stop - 1: n subtrees of one level and arity A, in segments of one operator each.

    nodes: (n,) a node of the graph for every row. children: (n * A,) rows of the children, node by node. operators, sizes: the
    operator and the number of rows of every segment.
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
    """The rows and frontiers of a batch.

    rows: R. row: (N,) the row of every node. token, number: (L,) of the leaves. encoded: (M,) indices of the leaves whose state
    comes from their number. frontiers: in order of computation. operators: those that occur in frontiers. width: the largest
    number of children.
    """

    rows: int
    row: Tensor
    token: Tensor
    number: Tensor
    encoded: Tensor
    frontiers: tuple[Frontier, ...]
    operators: tuple[str, ...]
    width: int
    maps: dict[bytes, Tensor] = field(default_factory=dict)

    def index(self, maps: np.ndarray) -> Tensor:
        """Indices of maps on the device, copied once: a recorded step cannot copy from the host."""
        if maps.tobytes() not in self.maps:
            self.maps[maps.tobytes()] = torch.from_numpy(maps).to(self.row.device)
        return self.maps[maps.tobytes()]


class Plans:
    """Plans of batches.

    The plan of a forest is made at the first call and cached. The plan of a graph is made at every call, because graphs may be
    changed. forests: those of batches that were built together; the first call plans all of them.
    """

    def __init__(self, signature: Signature, forests: Sequence[Forest] = (), *, options: Options = Options()):
        self.signature, self.forests, self.options = signature, forests, options
        self.cached: dict[tuple[Forest, bool, torch.device], Plan] = {}

    def get(
        self,
        source: Source,
        *,
        shared: bool,
        device: torch.device,
        noise_subtree: np.ndarray | None = None,
        checked: Checked | None = None,
    ) -> Plan:
        """The plan with its indices on a device.

        noise_subtree: (N,) subtree ids by which dropout was drawn. If the graph has changed since, no rows are shared.
        checked: the result of `check` for a graph, to skip the check.
        """
        shared, rows = shared and self.options.share, self.options.frontier_rows
        if not isinstance(source, Forest):
            # Not kept by the identity of the graph: such a plan was wrong after the user had edited the graph.
            nodes = columns(source, self.signature, checked=checked)
            if shared and noise_subtree is not None:
                noise_of_subtree = np.zeros(int(nodes.subtree.max(initial=0)) + 1, dtype=noise_subtree.dtype)
                noise_of_subtree[nodes.subtree] = noise_subtree
                shared = bool((noise_of_subtree[nodes.subtree] == noise_subtree).all())
            return make_plan(nodes, self.signature, shared=shared, device=device, frontier_rows=rows)
        if (source, shared, device) not in self.cached:
            # Eight at once in training: a batch and its plan take 220 us while their code and data are in the cache, 750
            # after a training step, which evicts both. 1.08 times as fast; four at once 1.04, sixteen 1.02.
            for forest in self.forests if source in self.forests else [source]:
                nodes = columns(forest, self.signature)
                plan = make_plan(nodes, self.signature, shared=shared, device=device, frontier_rows=rows)
                self.cached[forest, shared, device] = plan
        return self.cached[source, shared, device]


def make_plan(
    nodes: Columns, signature: Signature, *, shared: bool, device: torch.device, frontier_rows: int = Options.frontier_rows
) -> Plan:
    """Make the plan of a batch on the CPU, with its indices on a device.

    shared: one row for equal subtrees; otherwise only leaves share rows. frontier_rows: see `Options`.
    """
    rows = number_rows(nodes, signature, shared=shared)
    arrays = rows.of_node, rows.token, rows.number, np.flatnonzero(rows.token < 0), rows.nodes, rows.children
    row, token, number, encoded, node_index, child_index = [
        torch.from_numpy(array).to(device, non_blocking=True) for array in arrays
    ]
    # A level is a height. Operators of odd and of even arity once took turns, for fewer frontiers (15.4 in place of
    # 18.3 at batch 32); native code with plain levels takes 0.965 of that time at batch 32 and 1.02 at 1,024.
    frontiers, edge, leaves = [], 0, len(rows.token)
    for start, stop, operators, sizes in _frontiers(rows.level, rows.arity, rows.op, signature, frontier_rows):
        edges = slice(edge, edge := edge + (stop - start) * int(rows.arity[start]))
        span = leaves + start, leaves + stop, int(rows.arity[start])
        frontiers.append(Frontier(*span, node_index[start:stop], child_index[edges], operators, sizes))
    return Plan(
        rows=leaves + len(rows.op) + 1,
        row=row,
        token=token,
        number=number,
        encoded=encoded,
        frontiers=tuple(frontiers),
        operators=tuple(dict.fromkeys(itertools.chain(*(frontier.operators for frontier in frontiers)))),
        width=nodes.children.shape[1],
    )


class BatchRows(NamedTuple):
    """The rows of a batch: L leaves, then M operators by level, arity and operator, then a row of zeros.

    of_node: (N,) the row of every node. token, number: (L,) of the leaves. nodes, level, arity, op: (M,) of the operators, with
    a node of the batch for each. children: rows of their children, operator by operator.
    """

    of_node: np.ndarray
    token: np.ndarray
    number: np.ndarray
    nodes: np.ndarray
    level: np.ndarray
    arity: np.ndarray
    op: np.ndarray
    children: np.ndarray


def number_rows(nodes: Columns, signature: Signature, *, shared: bool) -> BatchRows:
    """Return the rows of a batch. shared: see `make_plan`."""
    op, root = nodes.op, signature.root_index
    # Ids of subtrees are in that order already, so that a plan is one sort and one sum.
    order = nodes.subtree.argsort(kind="stable")  # leaves, operators by level, arity and index, roots
    subtree = nodes.subtree[order]
    first = np.ones(len(order), dtype=bool)  # whether a node is the first of its row
    first[1:] = subtree[1:] != subtree[:-1]
    # Sharing leaves 11,795 of the 19,074 rows of the benchmark's batch of 1,024 equations.
    if not shared:
        first |= op[order] != NO_OPERATOR
    row = np.empty(len(op), dtype=np.int64)
    row[order] = first.cumsum() - 1
    node_of_row = order[first & (op[order] != root)]
    row[op == root] = len(node_of_row)
    leaves = int((op[node_of_row] == NO_OPERATOR).sum())
    leaf_nodes, inner_nodes = node_of_row[:leaves], node_of_row[leaves:]
    children = nodes.children.take(inner_nodes, 0)
    arity, levels, operators = (children >= 0).sum(1), nodes.height.take(inner_nodes), op.take(inner_nodes)
    tokens, numbers = nodes.token.take(leaf_nodes), nodes.number.take(leaf_nodes)
    return BatchRows(row, tokens, numbers, inner_nodes, levels, arity, operators, row[children[children >= 0]])


def _frontiers(
    level: np.ndarray, arity: np.ndarray, op: np.ndarray, signature: Signature, max_rows: int
) -> Iterator[tuple[int, int, tuple[str, ...], tuple[int, ...]]]:
    """Start, stop, operators and sizes of the segments of every frontier, from the columns (n,) of the sorted operators."""
    if not len(op):
        return
    new_frontier = (level[1:] != level[:-1]) | (arity[1:] != arity[:-1])
    new_segment = new_frontier | (op[1:] != op[:-1])
    runs = itertools.pairwise([0, *(np.flatnonzero(new_frontier) + 1).tolist(), len(op)])
    starts = [start for run in runs for start in range(*run, max_rows)]
    cuts = sorted({*starts, *(np.flatnonzero(new_segment) + 1).tolist()})
    operators = tuple([signature.names[i] for i in op.take(cuts).tolist()])
    sizes = tuple([end - start for start, end in itertools.pairwise([*cuts, len(op)])])
    segments = itertools.pairwise([*(bisect_left(cuts, start) for start in starts), len(cuts)])
    for (start, stop), (a, b) in zip(itertools.pairwise([*starts, len(op)]), segments, strict=True):
        yield start, stop, operators[a:b], sizes[a:b]
