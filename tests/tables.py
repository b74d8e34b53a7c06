"""Tables of records and results of runs from rows, for tests."""

from pathlib import Path

import polars as pl

from dgl_treestack.data import records
from dgl_treestack.results.run_result import RunResult


def table_of(rows) -> records.Table:
    """The table of some rows; columns of a tree that no row has are null."""
    table = records.joined([pl.DataFrame(rows, infer_schema_length=None)])
    return table.with_columns(pl.col(name).cast(kind) for name, kind in records.TYPES.items())


def result_of(config, **sets) -> RunResult:
    """A result without a folder. sets: tables or rows by name."""
    result = RunResult(Path("nowhere"), config, 0, [], records.joined([]))
    for name, rows in sets.items():
        result = result.with_set(name.replace("_", " "), rows if isinstance(rows, records.Table) else table_of(rows))
    return result
