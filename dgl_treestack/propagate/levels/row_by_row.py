"""A traced kernel anew, row by row.

A compiler makes one loop over nodes of what is pointwise in tensors of one shape, and several, with buffers in between, where
shapes differ. So what merely moves rows about (views, slices, stacks, their gradients) is done on arrays of tensors
(`row_rules`), and sums over rows become additions; only arithmetic on (n, W) is left. The rest is done on whole tensors.
"""

import operator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.propagate.levels.row_rules import KNOWN
from dgl_treestack.propagate.levels.rows import MOST, Rows, apart, filled, joined

aten = torch.ops.aten


class RowByRow(torch.fx.Interpreter):
    """Runs a graph that was traced with `nodes` nodes on rows. Its tensors may have any other number of them."""

    def __init__(self, graph: torch.fx.GraphModule, nodes: int):
        super().__init__(graph)
        self.nodes = nodes

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return apart(super().placeholder(target, args, kwargs))

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        return torch.utils._pytree.tree_map(joined, args[0])

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        known = KNOWN.get(target)
        if known is not None:
            found = known(self.nodes, *args, **kwargs)
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
            return joined(value)

        found = target(*torch.utils._pytree.tree_map(whole, args), **torch.utils._pytree.tree_map(whole, kwargs))
        return torch.utils._pytree.tree_map(apart, found)


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

    found = filled(shape, (at(place) for place in np.ndindex(shape)))
    sample = next((entry for entry in found.flat if entry is not None), like)
    return Rows(found, sample)


_ZERO_FIRST = {aten.tanh_backward.default, aten.sigmoid_backward.default, aten.neg.default, aten.div.Tensor, aten.mul.Scalar}
