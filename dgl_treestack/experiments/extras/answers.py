"""Answers to other equations than those of the test set, and ranks of what was blanked among candidates."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import polars as pl

from dgl_treestack.completion import questions
from dgl_treestack.completion.records import COMPLETION, fill
from dgl_treestack.data.records import Table
from dgl_treestack.experiments.extras import Extra, from_data
from dgl_treestack.generate.presets.listops import FAR
from dgl_treestack.resources import find_data
from dgl_treestack.runs.evaluation import answers

_questions = lru_cache(maxsize=1)(questions.read)  # large files take minutes to read


# A right or wrong answer takes 1.1 bits in a file of records, an answer with a score 2.1. With scores and all depths,
# those of `productivity` would have taken over 4 MB, where the limit is 3.
def _of_depths(low: int = 1, high: int = 99) -> Callable[[Table], Table]:
    """Select the equations of some depths, without scores and pairs, so that a file of records is smaller."""
    without = {"score": pl.lit(None, pl.Float64), "pair": pl.lit(None, pl.String)}
    return lambda table: table.filter(pl.col("depth").is_between(low, high)).with_columns(**without)


_DEEP = from_data(answers, "deep")
_BLANKS = Extra(
    lambda run, data, engine: fill(run.load_model(), _questions(find_data(data)), engine=engine, quiet=False),
    "blanks",
    COMPLETION,
)
EXTRAS = {
    "certified": from_data(answers),
    "train": replace(from_data(answers, "train"), select=_of_depths()),
    "deep": _DEEP,
    **{f"deep {low}-{high}": replace(_DEEP, select=_of_depths(low, high)) for low, high in ((1, 4), (1, 7), (8, 19))},
    **{f"{name} lists": from_data(answers, f"{name} lists") for name in FAR},
    "blanks": _BLANKS,
    "deep blanks": replace(_BLANKS, data="deep blanks"),
}
