"""Operations that move rows about, and sums over them, on arrays of rows: views, slices, stacks, the gradients of these.

A rule takes the number of nodes that the graph was traced with and the operation's arguments; it answers NotImplemented for
what it does not know.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.propagate.levels.rows import MOST, Rows, filled

aten = torch.ops.aten


def _axis(x: Rows, dim: int) -> int | None:
    """Of the array, or None for nodes and width."""
    dim = dim % x.dim
    return dim - 1 if 0 < dim < x.dim - 1 else None


def _view(nodes: int, x: Any, shape: Sequence[int]) -> Any:
    if not isinstance(x, Rows) or shape[0] != nodes:
        return NotImplemented
    width, middle = shape[-1], tuple(shape[1:-1])
    own = int(x.like.shape[-1])
    if width == own and int(np.prod(middle)) == x.entries.size:
        return x.made(x.entries.reshape(middle))
    if len(shape) == 2:
        return Rows.one(torch.cat(x.list(), 1))
    if own % width == 0 and x.entries.size * own // width <= MOST:
        parts = [row[:, i : i + width] for row in x.list() for i in range(0, own, width)]
        return Rows(filled(middle, parts), parts[0])
    return NotImplemented


def _select(nodes: int, x: Any, dim: int, index: int) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    return NotImplemented if axis is None else x.made(_array(x.entries.take(index, axis)))


def _array(entries: Any) -> np.ndarray:
    return entries if isinstance(entries, np.ndarray) else filled((), [entries])


def _slice(nodes: int, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if not isinstance(x, Rows):
        return NotImplemented
    chosen, axis = slice(start, end, step), _axis(x, dim)
    if axis is not None:
        return x.made(x.entries[(*[slice(None)] * axis, chosen)])
    if dim % x.dim == 0:
        return x if start in (None, 0) and (end is None or end >= nodes) else NotImplemented
    found = [row[:, chosen] for row in x.list()]
    return Rows(filled(x.entries.shape, found), found[0])


def _unbind(nodes: int, x: Any, dim: int = 0) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    return NotImplemented if axis is None else [_select(nodes, x, dim, i) for i in range(x.entries.shape[axis])]


def _split(nodes: int, x: Any, sizes: Sequence[int], dim: int = 0) -> Any:
    if not isinstance(x, Rows) or dim % x.dim != x.dim - 1:
        return NotImplemented
    columns = zip(*(torch.split_with_sizes(row, sizes, 1) for row in x.list()), strict=True)
    return [Rows(filled(x.entries.shape, parts), parts[0]) for parts in columns]


def _unsqueeze(nodes: int, x: Any, dim: int) -> Any:
    if not isinstance(x, Rows):
        return NotImplemented
    dim = dim % (x.dim + 1)
    return x.made(np.expand_dims(x.entries, dim - 1)) if 0 < dim < x.dim else NotImplemented


def _squeeze(nodes: int, x: Any, dim: int) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    return NotImplemented if axis is None or x.entries.shape[axis] != 1 else x.made(_array(x.entries.squeeze(axis)))


def _expand(nodes: int, x: Any, sizes: Sequence[int]) -> Any:
    if not isinstance(x, Rows) or len(sizes) != x.dim:
        return NotImplemented
    middle = tuple(own if size == -1 else size for own, size in zip(x.entries.shape, sizes[1:-1], strict=True))
    if int(np.prod(middle)) > MOST:
        return NotImplemented
    wide = x if sizes[-1] in (-1, int(x.like.shape[-1])) else x.each(lambda row: row.expand(-1, sizes[-1]))
    like = wide.like if wide is x else x.like.expand(-1, sizes[-1])
    return Rows(np.broadcast_to(wide.entries, middle), like)


def _permute(nodes: int, x: Any, dims: Sequence[int]) -> Any:
    if not isinstance(x, Rows) or dims[0] != 0 or dims[-1] % x.dim != x.dim - 1:
        return NotImplemented
    return x.made(x.entries.transpose([dim % x.dim - 1 for dim in dims[1:-1]]))


def _cat(nodes: int, every: Sequence[Any], dim: int = 0) -> Any:
    if not all(isinstance(x, Rows) for x in every):
        return NotImplemented
    axis = _axis(every[0], dim)
    if axis is not None:
        return every[0].made(np.concatenate([x.entries for x in every], axis))
    if dim % every[0].dim == 0 or any(x.entries.shape != every[0].entries.shape for x in every):
        return NotImplemented
    found = [torch.cat(parts, 1) for parts in zip(*(x.list() for x in every), strict=True)]
    return Rows(filled(every[0].entries.shape, found), found[0])


def _stack(nodes: int, every: Sequence[Any], dim: int = 0) -> Any:
    if not all(isinstance(x, Rows) for x in every):
        return NotImplemented
    dim = dim % (every[0].dim + 1)
    if not 0 < dim < every[0].dim:
        return NotImplemented
    return every[0].made(np.stack([x.entries for x in every], dim - 1))


def _sum(nodes: int, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False) -> Any:
    if not isinstance(x, Rows) or dims is None or len(dims) != 1:
        return NotImplemented
    axis = _axis(x, dims[0])
    if axis is None:
        return x.each(lambda row: row.sum(1, keepdim=True)) if keepdim and dims[0] % x.dim else NotImplemented
    kept = np.moveaxis(x.entries, axis, -1)
    sums = (_added(kept[place]) for place in np.ndindex(kept.shape[:-1]))
    found = filled(kept.shape[:-1], sums)
    return x.made(np.expand_dims(found, axis) if keepdim else found)


def _added(entries: np.ndarray) -> Tensor | None:
    present = [entry for entry in entries if entry is not None]
    return reduce(torch.add, present) if present else None


def _placed(nodes: int, gradient: Any, sizes: Sequence[int], dim: int, *where: Any) -> Any:
    """The gradient of a selection or a slice: zeros but there."""
    if not isinstance(gradient, Rows) or not 0 < dim % len(sizes) < len(sizes) - 1:
        is_all = isinstance(gradient, Rows) and len(where) > 1 and dim == 0 and where[0] in (None, 0)
        return gradient if is_all and where[1] >= nodes else NotImplemented
    found = np.full(tuple(sizes[1:-1]), None, dtype=object)
    index = where[0] if len(where) == 1 else slice(*where)
    found[(*[slice(None)] * (dim % len(sizes) - 1), index)] = (
        gradient.entries if gradient.entries.ndim else gradient.entries[()]
    )
    return gradient.made(found)


def _like(nodes: int, x: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(x, Rows):
        return NotImplemented
    value = torch.full_like(x.like, args[0] if args else 0.0)
    return x.made(filled(x.entries.shape, (value for _ in range(x.entries.size))))


def _copy(nodes: int, into: Any, x: Any) -> Any:
    if not isinstance(into, Rows) or not isinstance(x, Rows) or into.entries.ndim:
        return NotImplemented
    return Rows.one(into.list()[0].copy_(x.list()[0]))


def _same(nodes: int, x: Any, **kwargs: Any) -> Any:
    return x if isinstance(x, Rows) else NotImplemented


def _gather(nodes: int, x: Any, dim: int, index: Tensor) -> Any:
    if not isinstance(x, Rows) or dim != 0:
        return NotImplemented
    found = x.each(lambda row: row.index_select(0, index))
    return Rows(found.entries, found.list()[0])


def _softmax(nodes: int, x: Any, dim: int, half: bool) -> Any:
    axis = _axis(x, dim) if isinstance(x, Rows) else None
    if axis is None or x.entries.ndim != 1:
        return NotImplemented
    rows = x.list()
    largest = reduce(torch.maximum, rows)
    powers = [torch.exp(row - largest) for row in rows]
    total = reduce(torch.add, powers)
    return x.made(filled(x.entries.shape, (power / total for power in powers)))


def _softmax_back(nodes: int, gradient: Any, y: Any, dim: int, dtype: Any) -> Any:
    axis = _axis(y, dim) if isinstance(y, Rows) and isinstance(gradient, Rows) else None
    if axis is None or y.entries.ndim != 1:
        return NotImplemented
    both = [(a * b, b) for a, b in zip(gradient.list(), y.list(), strict=True)]
    total = reduce(torch.add, (product for product, _ in both))
    return y.made(filled(y.entries.shape, (product - b * total for product, b in both)))


KNOWN: dict[Any, Callable[..., Any]] = {
    aten.view.default: _view,
    aten._unsafe_view.default: _view,
    aten.reshape.default: _view,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.unbind.int: _unbind,
    aten.split_with_sizes.default: _split,
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
