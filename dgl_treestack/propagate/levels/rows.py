"""A traced kernel anew, row by row: every tensor (n, d, ..., W) as an array of d x ... tensors (n, W).

A compiler makes one loop over nodes of what is pointwise in tensors of one shape, and several, with buffers in between, where
shapes differ. So what merely moves rows about (views, slices, stacks, their gradients) is done here, on arrays of tensors, and
sums over rows become additions; only arithmetic on (n, W) is left. What is not known here is done on the whole tensor.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

aten = torch.ops.aten
MOST = 32  # rows of a tensor that is taken apart


class Rows:
    """A tensor (n, *shape of the array, W). An entry None is a row of zeros."""

    def __init__(self, entries: Any, like: Tensor):
        self.entries: np.ndarray = np.empty((), dtype=object) if isinstance(entries, Tensor) else entries
        if isinstance(entries, Tensor):
            self.entries[()] = entries
        self.like = like  # some row, for its size

    @property
    def dim(self) -> int:
        return self.entries.ndim + 2

    def made(self, entries: np.ndarray) -> "Rows":
        """Others of the same size."""
        return Rows(entries, self.like)

    def each(self, function: Callable[[Tensor], Tensor]) -> "Rows":
        """Of every row; zeros stay zeros."""
        return self.made(_filled(self.entries.shape, (None if row is None else function(row) for row in self.entries.flat)))

    def row(self, entry: Tensor | None) -> Tensor:
        return torch.zeros_like(self.like) if entry is None else entry

    def list(self) -> list[Tensor]:
        return [self.row(entry) for entry in self.entries.flat]

    def whole(self) -> Tensor:
        """As one tensor."""
        if not self.entries.ndim:
            return self.list()[0]
        return torch.stack(self.list(), 1).unflatten(1, self.entries.shape)


def _filled(shape: tuple[int, ...], values: Any) -> np.ndarray:
    found = np.empty(shape, dtype=object)
    for place, value in zip(np.ndindex(shape), values, strict=True):
        found[place] = value
    return found


def apart(tensor: Any) -> Any:
    """A tensor as rows, where it has few."""
    if not isinstance(tensor, Tensor) or tensor.dim() < 2 or not tensor.is_floating_point():
        return tensor
    shape = tuple(int(size) for size in tensor.shape[1:-1])
    if int(np.prod(shape)) > MOST:
        return tensor
    return Rows(_filled(shape, (_at(tensor, place) for place in np.ndindex(shape))), _at(tensor, (0,) * len(shape)))


def _at(tensor: Tensor, place: tuple[int, ...]) -> Tensor:
    return reduce(lambda rows, i: rows.select(1, i), place, tensor)


class RowByRow(torch.fx.Interpreter):
    """Runs a graph that was traced with `nodes` nodes on rows. Its tensors may have any other number of them."""

    def __init__(self, graph: torch.fx.GraphModule, nodes: int):
        super().__init__(graph)
        self.nodes, self.now = nodes, nodes

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return apart(super().placeholder(target, args, kwargs))

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        return torch.utils._pytree.tree_map(_joined, args[0])

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        known = _KNOWN.get(target)
        if known is not None:
            found = known(self, *args, **kwargs)
            if found is not NotImplemented:
                return found
        elif isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags:
            found = _pointwise(target, args, kwargs)
            if found is not NotImplemented:
                return found
        elif target is operator.getitem:
            return args[0][args[1]]
        return self._on_the_whole(target, args, kwargs)

    def _on_the_whole(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As the graph has it, the number of nodes put in its place."""
        rows = [value.like.shape[0] for value in torch.utils._pytree.tree_leaves(args) if isinstance(value, Rows)]

        def whole(value: Any) -> Any:
            if isinstance(value, int) and not isinstance(value, bool) and value and value % self.nodes == 0:
                return rows[0] * (value // self.nodes) if rows else -1
            return _joined(value)

        found = target(*torch.utils._pytree.tree_map(whole, args), **torch.utils._pytree.tree_map(whole, kwargs))
        return torch.utils._pytree.tree_map(apart, found)


def _joined(value: Any) -> Any:
    return value.whole() if isinstance(value, Rows) else value


def _pointwise(target: Any, args: Any, kwargs: Any) -> Any:
    """Row by row, arrays broadcast against each other. A zero row is known to `add`, `mul` and gradients that arrive first."""
    rows = [value for value in args if isinstance(value, Rows)]
    others = [value for value in args if isinstance(value, Tensor) and value.dim()]
    if not rows or others or len({value.dim for value in rows}) > 1:
        return NotImplemented
    like = max((value.like for value in rows), key=lambda tensor: tensor.shape[-1])
    shape = np.broadcast_shapes(*(value.entries.shape for value in rows))
    if int(np.prod(shape)) > MOST:
        return NotImplemented
    columns = [np.broadcast_to(value.entries, shape) if isinstance(value, Rows) else None for value in args]

    def at(place: tuple[int, ...]) -> Tensor | None:
        given = [value if column is None else column[place] for value, column in zip(args, columns, strict=True)]
        zero = [column is not None and entry is None for entry, column in zip(given, columns, strict=True)]
        if target is aten.add.Tensor and any(zero[:2]) and not kwargs:
            return given[1] if zero[0] else given[0]
        if (zero[0] and target in _ZERO_FIRST) or (target is aten.mul.Tensor and any(zero)):
            return None
        filled = [torch.zeros_like(like) if is_zero else entry for entry, is_zero in zip(given, zero, strict=True)]
        return target(*filled, **kwargs)

    found = _filled(shape, (at(place) for place in np.ndindex(shape)))
    sample = next((entry for entry in found.flat if entry is not None), like)
    return Rows(found, sample)


_ZERO_FIRST = {aten.tanh_backward.default, aten.sigmoid_backward.default, aten.neg.default, aten.div.Tensor, aten.mul.Scalar}


def _axis(x: Rows, dim: int) -> int | None:
    """Of the array, or None for nodes and width."""
    dim = dim % x.dim
    return dim - 1 if 0 < dim < x.dim - 1 else None


def _view(run: RowByRow, x: Any, shape: Sequence[int]) -> Any:
    if not isinstance(x, Rows) or shape[0] != run.nodes:
        return NotImplemented
    width, middle = shape[-1], tuple(shape[1:-1])
    own = int(x.like.shape[-1])
    if width == own and int(np.prod(middle)) == x.entries.size:
        return x.made(x.entries.reshape(middle))
    if len(shape) == 2:
        return Rows(torch.cat(x.list(), 1), x.like)
    if own % width == 0 and x.entries.size * own // width <= MOST:
        parts = [row[:, i : i + width] for row in x.list() for i in range(0, own, width)]
        return Rows(_filled(middle, parts), parts[0])
    return NotImplemented


def _select(run: RowByRow, x: Any, dim: int, index: int) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    return NotImplemented if axis is None else x.made(_array(x.entries.take(index, axis)))


def _array(entries: Any) -> np.ndarray:
    return entries if isinstance(entries, np.ndarray) else _filled((), [entries])


def _slice(run: RowByRow, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if not isinstance(x, Rows):
        return NotImplemented
    chosen, axis = slice(start, end, step), _axis(x, dim)
    if axis is not None:
        return x.made(x.entries[(*[slice(None)] * axis, chosen)])
    if dim % x.dim == 0:
        return x if start in (None, 0) and (end is None or end >= run.nodes) else NotImplemented
    found = [row[:, chosen] for row in x.list()]
    return Rows(_filled(x.entries.shape, found), found[0])


def _unbind(run: RowByRow, x: Any, dim: int = 0) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    return NotImplemented if axis is None else [_select(run, x, dim, i) for i in range(x.entries.shape[axis])]


def _unsqueeze(run: RowByRow, x: Any, dim: int) -> Any:
    if not isinstance(x, Rows):
        return NotImplemented
    dim = dim % (x.dim + 1)
    return x.made(np.expand_dims(x.entries, dim - 1)) if 0 < dim < x.dim else NotImplemented


def _squeeze(run: RowByRow, x: Any, dim: int) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    return NotImplemented if axis is None or x.entries.shape[axis] != 1 else x.made(_array(x.entries.squeeze(axis)))


def _expand(run: RowByRow, x: Any, sizes: Sequence[int]) -> Any:
    if not isinstance(x, Rows) or len(sizes) != x.dim:
        return NotImplemented
    middle = tuple(own if size == -1 else size for own, size in zip(x.entries.shape, sizes[1:-1], strict=True))
    if int(np.prod(middle)) > MOST:
        return NotImplemented
    wide = x if sizes[-1] in (-1, int(x.like.shape[-1])) else x.each(lambda row: row.expand(-1, sizes[-1]))
    like = wide.like if wide is x else x.like.expand(-1, sizes[-1])
    return Rows(np.broadcast_to(wide.entries, middle), like)


def _permute(run: RowByRow, x: Any, dims: Sequence[int]) -> Any:
    if not isinstance(x, Rows) or dims[0] != 0 or dims[-1] % x.dim != x.dim - 1:
        return NotImplemented
    return x.made(x.entries.transpose([dim % x.dim - 1 for dim in dims[1:-1]]))


def _cat(run: RowByRow, every: Sequence[Any], dim: int = 0) -> Any:
    if not all(isinstance(x, Rows) for x in every):
        return NotImplemented
    axis = _axis(every[0], dim)
    if axis is not None:
        return every[0].made(np.concatenate([x.entries for x in every], axis))
    if dim % every[0].dim == 0 or any(x.entries.shape != every[0].entries.shape for x in every):
        return NotImplemented
    found = [torch.cat(parts, 1) for parts in zip(*(x.list() for x in every), strict=True)]
    return Rows(_filled(every[0].entries.shape, found), found[0])


def _stack(run: RowByRow, every: Sequence[Any], dim: int = 0) -> Any:
    if not all(isinstance(x, Rows) for x in every):
        return NotImplemented
    dim = dim % (every[0].dim + 1)
    if not 0 < dim < every[0].dim:
        return NotImplemented
    return every[0].made(np.stack([x.entries for x in every], dim - 1))


def _sum(run: RowByRow, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False) -> Any:
    if not isinstance(x, Rows) or dims is None or len(dims) != 1:
        return NotImplemented
    axis = _axis(x, dims[0])
    if axis is None:
        return x.each(lambda row: row.sum(1, keepdim=True)) if keepdim and dims[0] % x.dim else NotImplemented
    kept = np.moveaxis(x.entries, axis, -1)
    sums = (_added(kept[place]) for place in np.ndindex(kept.shape[:-1]))
    found = _filled(kept.shape[:-1], sums)
    return x.made(np.expand_dims(found, axis) if keepdim else found)


def _added(entries: np.ndarray) -> Tensor | None:
    present = [entry for entry in entries if entry is not None]
    return reduce(torch.add, present) if present else None


def _placed(run: RowByRow, gradient: Any, sizes: Sequence[int], dim: int, *where: Any) -> Any:
    """The gradient of a selection or a slice: zeros but there."""
    if not isinstance(gradient, Rows) or not 0 < dim % len(sizes) < len(sizes) - 1:
        is_all = isinstance(gradient, Rows) and len(where) > 1 and dim == 0 and where[0] in (None, 0)
        return gradient if is_all and where[1] >= run.nodes else NotImplemented
    found = np.full(tuple(sizes[1:-1]), None, dtype=object)
    index = where[0] if len(where) == 1 else slice(*where)
    found[(*[slice(None)] * (dim % len(sizes) - 1), index)] = (
        gradient.entries if gradient.entries.ndim else gradient.entries[()]
    )
    return gradient.made(found)


def _like(run: RowByRow, x: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(x, Rows):
        return NotImplemented
    value = torch.full_like(x.like, args[0] if args else 0.0)
    return x.made(_filled(x.entries.shape, (value for _ in range(x.entries.size))))


def _copy(run: RowByRow, into: Any, x: Any) -> Any:
    if not isinstance(into, Rows) or not isinstance(x, Rows) or into.entries.ndim:
        return NotImplemented
    return Rows(into.list()[0].copy_(x.list()[0]), into.like)


def _same(run: RowByRow, x: Any, **kwargs: Any) -> Any:
    return x if isinstance(x, Rows) else NotImplemented


def _gather(run: RowByRow, x: Any, dim: int, index: Tensor) -> Any:
    if not isinstance(x, Rows) or dim != 0:
        return NotImplemented
    found = x.each(lambda row: row.index_select(0, index))
    return Rows(found.entries, found.list()[0])


def _softmax(run: RowByRow, x: Any, dim: int, half: bool) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    if axis is None or x.entries.ndim != 1:
        return NotImplemented
    rows = x.list()
    largest = reduce(torch.maximum, rows)
    powers = [torch.exp(row - largest) for row in rows]
    total = reduce(torch.add, powers)
    return x.made(_filled(x.entries.shape, (power / total for power in powers)))


def _softmax_back(run: RowByRow, gradient: Any, y: Any, dim: int, dtype: Any) -> Any:
    axis = _axis(y, dim) if isinstance(y, Rows) and isinstance(gradient, Rows) else None
    if axis is None or y.entries.ndim != 1:
        return NotImplemented
    both = [(a * b, b) for a, b in zip(gradient.list(), y.list(), strict=True)]
    total = reduce(torch.add, (product for product, _ in both))
    return y.made(_filled(y.entries.shape, (product - b * total for product, b in both)))


_KNOWN: dict[Any, Callable[..., Any]] = {
    aten.view.default: _view,
    aten._unsafe_view.default: _view,
    aten.reshape.default: _view,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.unbind.int: _unbind,
    aten.unsqueeze.default: _unsqueeze,
    aten.squeeze.dim: _squeeze,
    aten.expand.default: _expand,
    aten.permute.default: _permute,
    aten.cat.default: _cat,
    aten.stack.default: _stack,
    aten.sum.dim_IntList: _sum,
    aten.select_backward.default: _placed,
    aten.slice_backward.default: _placed,
    aten.full_like.default: _like,
    aten.zeros_like.default: _like,
    aten.copy_.default: _copy,
    aten.detach.default: _same,
    aten.alias.default: _same,
    aten.clone.default: _same,
    aten.index_select.default: _gather,
    aten._softmax.default: _softmax,
    aten._softmax_backward_data.default: _softmax_back,
}
