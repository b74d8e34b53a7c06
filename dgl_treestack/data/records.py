"""The table of answers: a row per evaluated tree, or per node with a label. Results are selections and group-bys of it.

Columns: `id`, `split`, `pair`, `family`, `depth`, `label`, `cut` (whether a value is on a branch cut), `score`, `correct`; null
where unknown. Then the measure by which the run groups trees if that is not the depth, and what tasks and other measurements
add. Evaluating and reading results import this module, opening a run does not: polars takes 0.3 s.
"""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from dgl_treestack import atomic
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError

Table = pl.DataFrame  # not of pandas, whose missing integers become floats
Record = dict[str, Any]  # a row of it
TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("id", "split", "pair", "family"), pl.String),
    "depth": pl.Int64,
    **dict.fromkeys(("cut", "correct"), pl.Boolean),
    "score": pl.Float64,
}
LABELS = (pl.Int64, pl.Float64, pl.String, pl.Null)  # of the column `label`: verdicts or numbers, names of classes, none
ROWS = 10**8  # of a group of rows in a file: of equal values only those of one group are stored once
DAMAGED = (OSError, ValueError, MemoryError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def of_examples(examples: Sequence[Example], columns: Mapping[str, Sequence[Any]] | None = None) -> Table:
    """Return the table of examples, a row each, with further columns, which may replace those of an example.

    A number that is not finite becomes null.
    """
    values: dict[str, Sequence[Any]] = {
        "id": [example.id for example in examples],
        "split": [example.fold for example in examples],
        "pair": [example.pair or None for example in examples],
        "family": [example.family or None for example in examples],
        "depth": [example.equation.depth for example in examples],
        "label": [example.label for example in examples],
        "cut": [None if example.certificate is None else bool(example.certificate.get("cut")) for example in examples],
        **dict.fromkeys(("score", "correct"), [None] * len(examples)),
        **(columns or {}),
    }
    table = pl.DataFrame([pl.Series(name, column, TYPES.get(name), strict=False) for name, column in values.items()])
    numbers = [name for name, kind in table.schema.items() if kind.is_float()]
    return table.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)) for name in numbers)


def write(path: Path, table: Table, metadata: Mapping[str, str] | None = None, level: int = 3) -> None:
    """Write a table as Parquet, atomically. metadata: texts that travel with it. level: of compression. Raises OutputError."""
    content, stored = io.BytesIO(), dict(metadata or {})
    table.write_parquet(content, compression_level=level, row_group_size=ROWS, statistics=False, metadata=stored)
    atomic.write_bytes(path, content.getvalue())


def read(path: Path | str) -> Table:
    """Read a table that `write` has written. Raises DataError that names the file."""
    try:
        table = pl.read_parquet(io.BytesIO(Path(path).read_bytes()))
        kinds = {name: table.schema.get(name) for name in (*TYPES, "label")}
        faults = [f"no column {name!r}" for name, kind in kinds.items() if kind is None]
        for name, kind in kinds.items():
            if kind not in (LABELS if name == "label" else [TYPES[name]]):
                faults.append(f"column {name!r} is of another type")
        if not faults and (table["depth"].null_count() or table["id"].null_count() or (table["depth"] < 0).any()):
            faults.append("an id or a depth is missing")
        if kinds["label"] == pl.String and "predicted" not in table.columns:
            faults.append("labels are classes, and there is no column 'predicted'")
    except DAMAGED as error:
        faults = [str(error)[:200]]
    if faults:
        raise DataError(f"Not a table of records ({faults[0]}). Evaluate the run again.", path)
    return table


def rows_of(table: Table) -> list[Record]:
    """Return a table as rows of plain data, such as for JSON; entries of a tree that no row has, such as `pair`, left out."""
    empty = [name for name in ("pair", "family", "cut") if table[name].null_count() == len(table)]
    return table.drop(empty).rows(named=True)


def by(table: Table, column: str = "depth") -> dict[int, Table]:
    """Return a table in groups by a column of whole numbers, such as the depth, in rising order; rows without one left out."""
    groups = table.filter(pl.col(column).is_not_null()).partition_by(column, as_dict=True, maintain_order=True)
    return {key: group for (key,), group in sorted(groups.items())}


def without_cuts(table: Table) -> Table:
    """Return the rows of trees without a value on a branch cut. Raises ConfigurationError if no row says that there is one."""
    if not table["cut"].any():
        raise ConfigurationError(
            "No record is of an equation on a branch cut: the certificates of this data do not say it, or the records are of "
            "an earlier version. Generate the data again and evaluate once more."
        )
    return table.filter(~pl.col("cut").fill_null(value=False))


def accuracy(table: Table) -> float:
    """Share of correct answers among those that are right or wrong, in per cent; NaN when there are none."""
    return share(table["correct"])


def share(column: pl.Series, whole: int = 100) -> float:
    """Share of true, or mean of numbers, in per cent or times another `whole`, without nulls; NaN without any."""
    count = len(column) - column.null_count()
    # the sum of floats in their order, which does not depend on how polars splits a column
    total = sum(column.drop_nulls().to_list()) if column.dtype.is_float() else column.sum()
    return float(whole * total / count) if count else math.nan


def majority(table: Table) -> float:
    """Accuracy of always predicting the most frequent label, in per cent; NaN without labels, or for numbers."""
    labels = table["label"].drop_nulls()
    if not len(labels) or labels.dtype.is_float():
        return math.nan
    return 100 * max(labels.value_counts()["count"]) / len(labels)


def of_columns(columns: Mapping[str, Sequence[Any]]) -> Table:
    """Return the table of answers of another kind, from its columns; those of trees are null."""
    return joined([pl.DataFrame(columns)])


def joined(tables: Iterable[Table]) -> Table:
    """Return tables as one; columns that only some have are null in the others."""
    return pl.concat([of_examples([]), *tables], how="diagonal_relaxed")
