"""A plan of fixed shape: the plans of batches are written into it, so that one recorded step serves all batches.

    row      0 .. L-1     leaves, padded
             L .. R-2     a frontier per level and arity, with a segment of fixed length per operator, padded
             R-1          a row of zeros: the roots of equations, and the children of padding

Segments of equal length make the linear maps of a frontier one kernel, or one batched product without a gather. All indices are
in one buffer, so that a batch is one copy to a GPU. Gradients of children's rows are summed over their uses in a fixed order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.cells import Cell
from dgl_treestack.expression.operators import Signature
from dgl_treestack.propagate.levels import grouped
from dgl_treestack.propagate.levels.eager import EagerStepper
from dgl_treestack.propagate.levels.linear_maps import LinearMaps
from dgl_treestack.propagate.levels.plan import BatchRows, Frontier, Plan
from dgl_treestack.propagate.levels.sweep import Buffers, Work

MARGIN = 1.25  # capacities of 20 batches times 1.25 overflowed in none of 100 others; without the margin in up to 3
Build = Callable[..., Callable[..., Any]]  # compiles the graph of a step, see `fused.inductor`
CHUNK = 64  # uses of a leaf that are summed at once: one thread of a GPU would sum thousands


class Capacity(NamedTuple):
    """Rows start .. start + operators * length - 1 of one level and arity, or the leaves. uses: as children, at most."""

    start: int
    length: int
    arity: int
    operators: tuple[str, ...]
    uses: int

    @property
    def size(self) -> int:
        return self.length * max(len(self.operators), 1)


def capacity(count: int) -> int:
    """Return the capacity for a count, the maximum of some batches."""
    return -(-int(count * MARGIN + 4) // 8) * 8


def builder(device: torch.device) -> Build | None:
    """Return what compiles steps for a device, None where they stay eager."""
    if device.type != "cuda":
        return None
    from dgl_treestack.propagate.compiled.fused import inductor  # loads Inductor

    return inductor


class Parts:
    """Named parts of one buffer (n,) of int64, so that a batch is one copy to a GPU. sizes: of the parts, by name."""

    def __init__(self, sizes: Mapping[str, int], device: torch.device):
        ends = np.cumsum([*sizes.values()]).tolist()
        self.spans = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        self.buffer = torch.zeros(ends[-1], dtype=torch.int64, device=device)
        self.part = self.split(self.buffer)

    def split(self, buffer: Any) -> dict[str, Any]:
        """Return the parts of a buffer, an array or a tensor, by name."""
        return {name: buffer[span] for name, span in self.spans.items()}


class StaticPlan(Parts):
    """A plan whose tensors are parts of one buffer; `indices` returns its content for a batch.

    samples: rows of some batches, of which capacities are the maxima with a margin. further: names and sizes of parts of the
    buffer that are the caller's. nodes: of a batch, at most.
    Part `present` has 1 for the operators of the batch, then 1 if there are numbers at leaves, and 1; by `ids` (nodes,) dropout
    is drawn. plan: its tensors are parts.
    build: compiles steps, None for eager ones and where they turn out not to compile. steps: the compiled ones, by arity.
    """

    def __init__(
        self,
        samples: Sequence[BatchRows],
        cell: Cell,
        signature: Signature,
        device: torch.device,
        further: Mapping[str, int] | None = None,
    ):
        leaves = capacity(max(len(rows.token) for rows in samples))
        operators = {
            arity: tuple(operator.name for operator in cell.operators if operator.arity in (arity, None))
            for arity in sorted({int(arity) for rows in samples for arity in np.unique(rows.arity)})
        }
        keys = sorted({key for rows in samples for key in zip(rows.level.tolist(), rows.arity.tolist(), strict=True)})
        self.group_of_key = np.full((max(k[0] for k in keys) + 1, max(operators) + 1), -1) if keys else np.full((1, 1), -1)
        self.group_of_key[tuple(np.array(keys, dtype=np.int64).reshape(-1, 2).T)] = np.arange(1, len(keys) + 1)
        self.place = np.full((max(operators, default=0) + 1, len(signature.names) + 1), -1)
        for arity, names in operators.items():
            self.place[arity, [signature.index[name] for name in names]] = np.arange(len(names))
        lengths, uses = np.zeros(len(keys) + 1, dtype=np.int64), np.zeros(len(keys) + 1, dtype=np.int64)
        for rows in samples:
            group, ordinal = self._segments(rows)
            np.maximum.at(lengths, group, ordinal + 1)
            group_of_row = np.concatenate([np.zeros(len(rows.token), dtype=np.int64), group])
            uses = np.maximum(uses, np.bincount(group_of_row[rows.children], minlength=len(uses)))
        self.groups = [Capacity(0, leaves, 0, (), capacity(uses[0]))]
        for (_, arity), length, count in zip(keys, lengths[1:].tolist(), uses[1:].tolist(), strict=True):
            start = self.groups[-1].start + self.groups[-1].size
            self.groups.append(Capacity(start, capacity(length), arity, operators[arity], capacity(count)))
        self.rows = self.groups[-1].start + self.groups[-1].size + 1
        self.nodes = capacity(max(len(rows.of_node) for rows in samples))
        self.starts, self.lengths, self.capacities = (
            np.array([getattr(group, name) for group in self.groups]) for name in ("start", "length", "uses")
        )
        self.group_of_row = np.repeat(np.arange(len(self.groups)), [group.size for group in self.groups])
        sizes = np.array([group.size for group in self.groups])
        self.first_edge = np.concatenate([[0], (sizes * [group.arity for group in self.groups]).cumsum()])
        self.first_use = np.concatenate([[0], self.capacities.cumsum()])
        encoded = max(int((rows.token < 0).sum()) for rows in samples)
        self.encoded = capacity(encoded) if encoded else 0
        self.chunks = leaves + self.groups[0].uses // CHUNK
        parts = {"row": self.nodes, "ids": self.nodes, "token": leaves, "number": leaves, "encoded": self.encoded}
        parts |= {"nodes": self.rows - 1, "children": int(self.first_edge[-1]), "offsets": self.rows - 1 + len(self.groups)}
        parts |= {"uses": int(self.first_use[-1]), "chunks": self.chunks + 1, "present": len(signature.names) + 2}
        super().__init__({**parts, **(further or {})}, device)
        self.plan = self._plan(cell)
        self.build: Build | None = None
        self.is_checked, self.steps = False, dict[int, Any]()

    def _plan(self, cell: Cell) -> Plan:
        """The plan whose tensors are parts of the buffer."""
        part, frontiers = self.part, []
        for frontier, edge in zip(self.groups[1:], self.first_edge[1:].tolist(), strict=False):
            stop = frontier.start + frontier.size
            frontiers.append(
                Frontier(
                    *(frontier.start, stop, frontier.arity, part["nodes"][frontier.start : stop]),
                    part["children"][edge : edge + frontier.size * frontier.arity],
                    *(frontier.operators, (frontier.length,) * len(frontier.operators)),
                )
            )
        width, operators = max(group.arity for group in self.groups), tuple(operator.name for operator in cell.operators)
        number = part["number"].view(torch.float64)
        return Plan(self.rows, part["row"], part["token"], number, part["encoded"], tuple(frontiers), operators, width)

    def _segments(self, rows: BatchRows) -> tuple[np.ndarray, np.ndarray]:
        """Return the group of every operator's row, and its number in its segment, -1 for one without a group."""
        level, arity = rows.level, rows.arity
        fits = (level < self.group_of_key.shape[0]) & (arity < self.group_of_key.shape[1])
        group = np.where(fits, self.group_of_key[level * fits, arity * fits], -1)
        is_first = np.ones(len(level), dtype=bool)
        is_first[1:] = (level[1:] != level[:-1]) | (arity[1:] != arity[:-1]) | (rows.op[1:] != rows.op[:-1])
        index = np.arange(len(level))
        return group, index - np.maximum.accumulate(np.where(is_first, index, 0))

    def indices(self, rows: BatchRows) -> np.ndarray | None:
        """Return the content of the buffer for a batch, None if the batch does not fit."""
        leaves, encoded = len(rows.token), np.flatnonzero(rows.token < 0)
        group, ordinal = self._segments(rows)
        too_many = len(rows.of_node) > self.nodes or leaves > self.lengths[0] - 1 or len(encoded) > self.encoded
        if too_many or (group < 0).any() or (ordinal >= self.lengths[group]).any():
            return None
        place = self.place[rows.arity, rows.op] * self.lengths[group] + ordinal
        row = np.concatenate([np.arange(leaves), self.starts[group] + place, [self.rows - 1]])
        ends = rows.arity.cumsum()
        slots = np.arange(len(rows.children)) - np.repeat(ends - rows.arity, rows.arity)
        edges = np.repeat(self.first_edge[group] + place * rows.arity, rows.arity) + slots
        children = row[rows.children]
        order = children.argsort(kind="stable")
        uses_of_row = np.bincount(children, minlength=self.rows - 1)
        uses_of_group = np.add.reduceat(uses_of_row, self.starts)
        if (uses_of_group > self.capacities).any():
            return None
        buffer = np.zeros(len(self.buffer), dtype=np.int64)
        part = self.split(buffer)
        part["row"][:] = self.rows - 1
        part["row"][: len(rows.of_node)] = row[rows.of_node]
        part["token"][:leaves], part["number"].view(np.float64)[:leaves] = rows.token, rows.number
        part["encoded"][:] = self.lengths[0] - 1  # a leaf of the padding
        part["encoded"][: len(encoded)] = encoded
        part["nodes"][row[leaves:-1]] = rows.nodes
        part["children"][:] = self.rows - 1
        part["children"][edges] = children
        ends = uses_of_row.cumsum()
        first = ends[self.starts] - uses_of_row[self.starts]  # uses before those of each group
        group_of_use = self.group_of_row[children[order]]
        part["uses"][self.first_use[group_of_use] + np.arange(len(order)) - first[group_of_use]] = edges[order]
        part["offsets"][np.arange(self.rows - 1) + self.group_of_row + 1] = ends - first[self.group_of_row]
        of_leaf = uses_of_row[: self.lengths[0]]
        chunks_of_leaf = -(-of_leaf // CHUNK)
        ends_of_leaf, last_chunk = of_leaf.cumsum(), chunks_of_leaf.cumsum()
        number = np.arange(last_chunk[-1]) - np.repeat(last_chunk - chunks_of_leaf, chunks_of_leaf)
        part["chunks"][:] = ends_of_leaf[-1]
        part["chunks"][: last_chunk[-1]] = np.repeat(ends_of_leaf - of_leaf, chunks_of_leaf) + number * CHUNK
        part["offsets"][1 : self.lengths[0] + 1] = last_chunk  # of the chunks of leaves
        part["present"][np.unique(rows.op)], part["present"][-2], part["present"][-1] = 1, len(encoded) > 0, 1
        part["ids"][: len(rows.of_node)] = np.arange(len(rows.of_node))
        return buffer


class StaticMaps(LinearMaps):
    """The linear maps of a static plan: segments are of equal length."""

    def forward(self, product: str, frontier: Frontier, x: Tensor) -> Tensor:
        stack, rows = self.maps_of(product, frontier)
        return grouped.linear(x, None, stack.weight, stack.bias, self.plan.index(np.array(rows)), False)

    def backward(self, product: str, frontier: Frontier, x: Tensor, gradient_y: Tensor) -> Tensor:
        stack, rows = self.maps_of(product, frontier)
        self.add_gradients(product, frontier, gradient_y, x, None)
        if stack.weight is None:
            return torch.empty_like(x)
        return grouped.linear(gradient_y, None, stack.weight, None, self.plan.index(np.array(rows)), True)

    def add_gradients(self, product: str, frontier: Frontier, gradient_y: Tensor, x: Tensor, children: Tensor | None) -> None:
        """Add to the gradients of the maps. children: as in `grouped.linear`."""
        stack, rows = self.maps_of(product, frontier)
        stack.used.update(rows)
        gradients = (None if part is None else stack.gradient(i) for i, part in enumerate((stack.weight, stack.bias)))
        grouped.add_gradients(gradient_y, x, children, self.plan.index(np.array(rows)), *gradients)


class StaticStepper(EagerStepper):
    """Steps of a static plan, whose gradients are summed in a fixed order without atomic additions."""

    maps: StaticMaps
    maps_type = StaticMaps

    def __init__(self, work: Work, static: StaticPlan):
        super().__init__(work)
        self.static = static
        leaves_like = next(work.cell.parameters())
        shapes = {name: work.shapes[name] for name in work.cell.fields}
        self.edges = {name: leaves_like.new_zeros(int(static.first_edge[-1]), *shape) for name, shape in shapes.items()}

    def add_to_children(self, i: int, gradients: Buffers, name: str, gradient: Tensor) -> None:
        start = int(self.static.first_edge[i + 1])
        self.edges[name][start : start + gradient.shape[0] * gradient.shape[1]] = gradient.flatten(0, 1)

    def collect(self, i: int, gradients: Buffers) -> None:
        """Add the gradients of a frontier's rows, or of the leaves for -1, over their uses."""
        static, group = self.static, self.static.groups[i + 1]
        first = int(static.first_use[i + 1])
        uses = static.part["uses"][first : first + group.uses]
        offsets = static.part["offsets"][group.start + i + 1 : group.start + i + 2 + group.size]
        for name in self.edges if i >= 0 else ("h",):
            rows, values = gradients[name][group.start : group.start + group.size].flatten(1), self.edges[name].flatten(1)
            if i >= 0:
                grouped.add_sums(rows, values, uses, offsets)
            else:
                sums = values.new_zeros(static.chunks, values.shape[1])
                grouped.add_sums(sums, values, uses, static.part["chunks"])
                grouped.add_sums(rows, sums, None, offsets)
