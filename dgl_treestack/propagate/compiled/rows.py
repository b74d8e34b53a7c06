"""A traced graph rewritten row by row, so that it consists of arithmetic on tensors (n, width).

Inductor fuses pointwise operations on tensors of one shape into one loop over nodes; where shapes differ, it writes several
loops with buffers between them. So a tensor (n, d, ..., W) is split into d * ... rows (n, W). An operation that only moves
elements (a view, a slice, a stack, the gradient of one) is run once on the positions of the elements; the result shows which
rows, or parts of rows, make up every row. Sums over rows become additions. Other operations are applied to unsplit tensors.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx.node import map_aggregate, map_arg

aten = torch.ops.aten
MAX_ROWS = 32  # a tensor with more rows is not split
MOVING = {
    *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unbind.int, aten.select.int, aten.slice.Tensor),
    *(aten.split_with_sizes.default, aten.unsqueeze.default, aten.squeeze.dim, aten.expand.default, aten.permute.default),
    *(aten.cat.default, aten.stack.default, aten.transpose.int, aten.select_backward.default, aten.slice_backward.default),
    *(aten.detach.default, aten.alias.default, aten.clone.default),
}


class Rows:
    """A tensor (n, *shape, W) as an array `entries` of tensors (n, W), where None is a row of zeros.

    rows: in order. like: a row of the same size, in place of the first row that is not None where there is none.
    """

    def __init__(self, shape: tuple[int, ...], rows: Iterable[Tensor | None], like: Tensor | None = None):
        self.entries = np.empty(shape, dtype=object)
        for index, row in zip(np.ndindex(shape), rows, strict=True):
            self.entries[index] = row
        self.like: Tensor = next(row for row in (*self.entries.flat, like) if row is not None)

    def list(self) -> list[Tensor]:
        """All rows, zeros included."""
        return [torch.zeros_like(self.like) if row is None else row for row in self.entries.flat]

    def tensor(self) -> Tensor:
        """The unsplit tensor."""
        rows = self.list()
        return torch.stack(rows, 1).unflatten(1, self.entries.shape) if self.entries.ndim else rows[0]


# Without it a step of Tree-SMU took 1.14 times as long at batch 32 and 1.26 at 1,024, since Inductor stores every
# `stack` and `cat`. Rows as inputs and outputs alone: 1.28 and 1.25 of an earlier engine's time. One rule for all moves
# replaced a rule per operation (240 lines in place of 386).
class RowByRow(torch.fx.Interpreter):
    """Runs a traced graph on rows. nodes: the number of nodes at tracing; the inputs may have another one."""

    def __init__(self, graph: torch.fx.GraphModule, nodes: int):
        super().__init__(graph)
        self.nodes = self.count = nodes
        moving = [node for node in graph.graph.nodes if node.target in MOVING]
        self.moves = {node: move for node in moving if (move := _move(node)) is not None}

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        tensor = super().placeholder(target, args, kwargs)
        count = self.current.meta["val"].shape[0]
        if count == self.nodes:
            self.count = tensor.shape[0]
        return tensor if count < self.nodes else _to_rows(tensor)  # weights are no rows

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        return map_aggregate(args[0], _unsplit)

    def run_node(self, n: torch.fx.Node) -> Any:
        self.current = n
        if n not in self.moves:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        sources: list[Tensor] = []
        map_aggregate((args, kwargs), lambda value: sources.extend(value.list()) if isinstance(value, Rows) else None)
        results = [Rows(shape, [_joined(parts, sources) for parts in rows], sources[0]) for shape, rows in self.moves[n]]
        return results if isinstance(n.meta["val"], list | tuple) else results[0]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is operator.getitem:
            return args[0][args[1]]
        result = NotImplemented
        if target in RULES and isinstance(args[0], Rows):
            result = RULES[target](*args, **kwargs)
        elif torch.Tag.pointwise in getattr(target, "tags", ()):
            result = _pointwise(target, args, kwargs)
        if result is not NotImplemented:
            return result

        def argument(value: Any) -> Any:
            if type(value) is int and value and value % self.nodes == 0:  # a size: a multiple of the number of nodes
                return self.count * (value // self.nodes)
            return _unsplit(value)

        return map_aggregate(target(*map_aggregate(args, argument), **map_aggregate(kwargs, argument)), _to_rows)


Span = tuple[int, int, int]  # row of the arguments, first element, last element + 1
Move = list[tuple[tuple[int, ...], list[list[Span]]]]  # per result, its shape between n and W, and the parts of every row


def _move(node: torch.fx.Node) -> Move | None:
    """The parts of every row of an operation's results, if it only moves rows and parts of rows; else None.

    The operation is run on the positions of all elements, counted from 1, so that a 0 in its results is a zero.
    """
    firsts, count = list[int](), 0  # the position of the first element of every row, the number of elements

    def positions(argument: torch.fx.Node) -> Any:
        nonlocal count
        value = argument.meta["val"]
        start, count = count, count + math.prod(value.shape[1:])
        firsts.extend(range(start + 1, count + 1, value.shape[-1]))
        return torch.arange(start + 1, count + 1).view(1, *value.shape[1:]).expand(value.shape)

    inputs = [argument.meta["val"] for argument in node.all_input_nodes]
    if not all(_can_be_rows(value) for value in inputs):
        return None
    results = node.target(*map_arg(node.args, positions), **map_arg(node.kwargs, positions))  # type: ignore[operator]
    move = []
    for result in results if isinstance(results, list | tuple) else [results]:
        if result.dim() < 2 or not result.shape[-1] or math.prod(result.shape[1:-1]) > MAX_ROWS:
            return None
        if result.shape[0] != inputs[0].shape[0] or not bool((result == result[:1]).all()):  # moves nodes, too
            return None
        table = result[0].numpy()
        move.append((table.shape[:-1], [_parts(row, np.array(firsts)) for row in table.reshape(-1, table.shape[-1])]))
    return move


def _parts(positions: np.ndarray, firsts: np.ndarray) -> list[Span]:
    """The parts of a row; part (-1, 0, k) is k zeros."""
    source = np.searchsorted(firsts, positions, side="right") - 1
    new_part = (np.diff(source) != 0) | ((np.diff(positions) != 1) & (source[1:] >= 0))
    cuts = [0, *(np.flatnonzero(new_part) + 1).tolist(), len(positions)]
    parts: list[Span] = []
    for begin, end in itertools.pairwise(cuts):
        row = int(source[begin])
        offset = int(positions[begin] - firsts[row]) if row >= 0 else 0
        parts.append((row, offset, offset + end - begin))
    return parts


def _joined(parts: list[Span], sources: list[Tensor]) -> Tensor | None:
    if all(row < 0 for row, _, _ in parts):
        return None
    columns = []
    for row, start, stop in parts:
        source = sources[max(row, 0)]
        if row < 0:
            columns.append(source.new_zeros(source.shape[0], stop))
        else:
            columns.append(source if stop - start == source.shape[-1] else source[:, start:stop])
    return columns[0] if len(columns) == 1 else torch.cat(columns, 1)


def _pointwise(target: Any, args: Any, kwargs: Any) -> Any:
    """Apply a pointwise operation row by row, with broadcasting of the arrays. Sums and products skip rows of zeros."""
    arrays = [value for value in args if isinstance(value, Rows)]
    if not arrays or len({value.entries.ndim for value in arrays}) > 1:
        return NotImplemented
    if any(isinstance(value, Tensor) and value.dim() for value in args):
        return NotImplemented
    like = max((value.like for value in arrays), key=lambda tensor: tensor.shape[-1])
    shape = np.broadcast_shapes(*(value.entries.shape for value in arrays))
    if int(np.prod(shape)) > MAX_ROWS:
        return NotImplemented
    columns = [np.broadcast_to(value.entries, shape) if isinstance(value, Rows) else None for value in args]

    def row(index: tuple[int, ...]) -> Tensor | None:
        operands = [value if column is None else column[index] for value, column in zip(args, columns, strict=True)]
        if target is aten.add.Tensor and not kwargs and None in operands[:2]:
            return operands[1] if operands[0] is None else operands[0]
        if (target is aten.mul.Tensor and None in operands) or (operands[0] is None and target in ZERO_OF_ZERO):
            return None
        return target(*(torch.zeros_like(like) if operand is None else operand for operand in operands), **kwargs)

    return Rows(shape, (row(index) for index in np.ndindex(shape)), like)


ZERO_OF_ZERO = {aten.tanh_backward.default, aten.sigmoid_backward.default, aten.neg.default, aten.div.Tensor, aten.mul.Scalar}


def _sum(x: Rows, dims: Any = None, keepdim: bool = False) -> Any:
    if not dims or len(dims) > 1:
        return NotImplemented
    axis = dims[0] % (x.entries.ndim + 2) - 1
    if not 0 <= axis < x.entries.ndim:
        return NotImplemented
    moved = np.moveaxis(x.entries, axis, 0)
    present = [[row for row in column if row is not None] for column in moved.reshape(len(moved), -1).T]
    rows = [reduce(torch.add, column) if column else None for column in present]
    shape = moved.shape[1:]
    if keepdim:
        shape = (*x.entries.shape[:axis], 1, *x.entries.shape[axis + 1 :])
    return Rows(shape, rows, x.like)


def _copy(into: Rows, x: Any) -> Any:
    if not (isinstance(x, Rows) and into.entries.shape == x.entries.shape):
        return NotImplemented
    return Rows(x.entries.shape, [a.copy_(b) for a, b in zip(into.list(), x.list(), strict=True)])


def _index_select(x: Rows, dim: int, index: Tensor) -> Any:
    if dim:
        return NotImplemented
    return Rows(x.entries.shape, [row.index_select(0, index) for row in x.list()])


def _full_like(x: Rows, value: Any = 0.0, **kwargs: Any) -> Any:
    return Rows(x.entries.shape, [torch.full_like(x.like, value)] * x.entries.size)


# `prod` and `cumprod` are not split: a cell that writes them as multiplications is. For Tree-Queue that took native
# code from 1.33 to 0.84 of an earlier engine's time at batch 32, from 1.17 to 0.52 at 1,024.
RULES: dict[Any, Callable[..., Any]] = {  # for a first argument that is split; others, and what a rule refuses, are not
    aten.sum.dim_IntList: _sum,
    aten.copy_.default: _copy,
    aten.index_select.default: _index_select,
    aten.full_like.default: _full_like,
    aten.zeros_like.default: _full_like,
}


def _to_rows(tensor: Any) -> Any:
    """A tensor as rows, unless it has too many; other values unchanged."""
    if not _can_be_rows(tensor):
        return tensor
    shape = tuple(int(size) for size in tensor.shape[1:-1])
    return Rows(shape, [reduce(lambda rows, i: rows.select(1, i), index, tensor) for index in np.ndindex(shape)])


def _can_be_rows(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.dim() < 2 or not value.is_floating_point():
        return False
    return bool(value.shape[-1]) and math.prod(value.shape[1:-1]) <= MAX_ROWS


def _unsplit(value: Any) -> Any:
    return value.tensor() if isinstance(value, Rows) else value
