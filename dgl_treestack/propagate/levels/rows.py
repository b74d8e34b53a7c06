"""A tensor (n, d, ..., W) as an array of d x ... tensors (n, W), its rows; see `row_by_row`."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST = 32  # rows of a tensor that is taken apart


class Rows:
    """A tensor (n, *shape of the array, W). An entry None is a row of zeros."""

    def __init__(self, entries: np.ndarray, like: Tensor):
        self.entries, self.like = entries, like  # like: some row, for its size

    @classmethod
    def one(cls, tensor: Tensor) -> "Rows":
        """A tensor (n, W)."""
        return cls(filled((), [tensor]), tensor)

    @property
    def dim(self) -> int:
        return self.entries.ndim + 2

    def made(self, entries: np.ndarray) -> "Rows":
        """Others of the same size."""
        return Rows(entries, self.like)

    def each(self, function: Callable[[Tensor], Tensor]) -> "Rows":
        """Of every row; zeros stay zeros."""
        return self.made(filled(self.entries.shape, (None if row is None else function(row) for row in self.entries.flat)))

    def row(self, entry: Tensor | None) -> Tensor:
        return torch.zeros_like(self.like) if entry is None else entry

    def list(self) -> list[Tensor]:
        return [self.row(entry) for entry in self.entries.flat]

    def whole(self) -> Tensor:
        """As one tensor."""
        if not self.entries.ndim:
            return self.list()[0]
        return torch.stack(self.list(), 1).unflatten(1, self.entries.shape)


def filled(shape: tuple[int, ...], values: Iterable[Tensor | None]) -> np.ndarray:
    """An array of tensors."""
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
    return Rows(filled(shape, (_at(tensor, place) for place in np.ndindex(shape))), _at(tensor, (0,) * len(shape)))


def _at(tensor: Tensor, place: tuple[int, ...]) -> Tensor:
    return reduce(lambda rows, i: rows.select(1, i), place, tensor)


def joined(value: Any) -> Any:
    """Rows as one tensor, anything else as it is."""
    return value.whole() if isinstance(value, Rows) else value
