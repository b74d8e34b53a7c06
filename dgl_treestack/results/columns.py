"""Records as columns, for tables of many runs: an equation's record takes some thirty bytes in place of five hundred."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from dgl_treestack.data.records import Record

CHUNK = 4096  # records that are made at once
LONGEST = 64  # characters of a text in a column of bytes, which has the width of its longest text
UTF_8 = ("utf-8", "surrogatepass")  # half of a surrogate pair, which text read from JSON may contain, stays as it is


class ColumnRecords(Sequence[Record]):
    """Records with the same entries, kept as columns; a record is made when it is asked for, so that changing it has no effect.

    columns: name -> (records,), numbers, UTF-8 bytes for text, or objects.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        self.columns = dict(columns)
        self._length = len(next(iter(self.columns.values()), ()))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> "ColumnRecords": ...

    def __getitem__(self, index: int | slice) -> "Record | ColumnRecords":
        if isinstance(index, slice):
            return ColumnRecords({name: column[index] for name, column in self.columns.items()})
        return {name: entries(column[index : index + 1 or None])[0] for name, column in self.columns.items()}

    def values(self, name: str) -> list[Any]:
        """Return the entries of one name; None where records have no such entry."""
        return entries(self.columns[name]) if name in self.columns else [None] * self._length

    def __iter__(self) -> Iterator[Record]:
        names = tuple(self.columns)
        for start in range(0, self._length, CHUNK):
            for row in zip(*(entries(column[start : start + CHUNK]) for column in self.columns.values()), strict=True):
                yield dict(zip(names, row, strict=True))


def compact(rows: Sequence[Record]) -> Sequence[Record]:
    """Return records as columns; unchanged if they do not all have the same entries, or have entries of several numbers."""
    if isinstance(rows, ColumnRecords) or not rows:
        return rows
    names = rows[0].keys()
    if any(row.keys() != names for row in rows) or any(isinstance(entry, list | dict) for entry in rows[0].values()):
        return rows
    return ColumnRecords({name: column([row[name] for row in rows]) for name in names})


def column(values: Sequence[Any]) -> np.ndarray:
    """Return values as an array: whole numbers in the smallest type, floats, truth values, short texts as bytes, others as
    objects."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return smallest(np.array(values))
    if kinds in ({float}, {bool}):
        return np.array(values)
    if kinds == {str} and not any(len(value) > LONGEST or value.endswith("\0") for value in values):  # NumPy drops zeros
        return np.array([value.encode(*UTF_8) for value in values], dtype=np.bytes_)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def entries(array: np.ndarray) -> list[Any]:
    """Return the values of a column."""
    values = array.tolist()
    return [value.decode(*UTF_8) for value in values] if array.dtype.kind == "S" else values


def smallest(array: np.ndarray) -> np.ndarray:
    """Return whole numbers in the smallest type that holds them."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    return array.astype(np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)))
