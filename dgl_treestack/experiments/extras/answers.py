"""Answers to other equations than those of the test set."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from dgl_treestack.data.records import Table
from dgl_treestack.experiments.extras._extra import from_data
from dgl_treestack.runs.evaluation import answers


def _of_depths(low: int = 1, high: int = 99) -> Callable[[Table], Table]:
    """Select the equations of some depths, without scores and pairs, so that a file of records is smaller."""
    without = {"score": pl.lit(None, pl.Float64), "pair": pl.lit(None, pl.String)}
    return lambda table: table.filter(pl.col("depth").is_between(low, high)).with_columns(**without)


_DEEP = from_data(answers, "deep")
EXTRAS = {
    "certified": from_data(answers),
    "train": replace(from_data(answers, "train"), select=_of_depths()),
    "deep": _DEEP,
    **{f"deep {low}-{high}": replace(_DEEP, select=_of_depths(low, high)) for low, high in ((1, 4), (1, 7), (8, 19))},
}
