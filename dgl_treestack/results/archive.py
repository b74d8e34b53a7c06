"""Results of many runs in one Parquet file that can be committed. Tables and most figures are made from it again.

The file has the table of answers of all runs, with the column `run`, and their metrics as the set `epochs`. Its metadata
describes every run: configuration, seed, commit, machine. Of the answers it has what tables need: no texts, and in place of a
score -2, -1, 1 or 2, which tells the answer, whether it is right, and which member of a pair has the higher score, so that
calibration cannot be computed. Records with vectors, such as representations, are left out; the table's columns that were
measured on them are stored as numbers.
"""

import json
import tokenize
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from dgl_treestack.data import records
from dgl_treestack.data.records import DAMAGED, Table
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.plain_data import tables_of
from dgl_treestack.results.run_result import EPOCHS, RunResult
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.environment import range_of
from dgl_treestack.runs.run import checked_metrics

DESCRIPTION = "runs"  # the key of the metadata
# Ids are texts in the file: numbers in their place did not fit those of runs that are here, and halved all differences.
TEXTS = ("set", "id", "pair", "family")  # columns of text that are stored, in memory a number for each text
KEPT = (*TEXTS, "depth", "label", "cut", "score", "correct")
CATEGORY = pl.Categorical()


def write(path: Path, runs: Sequence[RunResult]) -> None:
    """Write runs, with `values` where their records are left out, to a file. The same runs give the same bytes."""
    tables, description = [], []
    for number, run in enumerate(runs):
        epochs = pl.DataFrame(run.rows, infer_schema_length=None).with_columns(set=pl.lit(EPOCHS, CATEGORY))
        left_out = with_vectors(run.answers)
        answers = run.answers.filter(~pl.col("set").cast(pl.String).is_in(left_out))
        numbers = [name for name, kind in answers.schema.items() if kind.is_numeric() or kind == pl.Boolean or name == "label"]
        answers = answers.select(pl.col(TEXTS).cast(CATEGORY), *(name for name in numbers if name not in TEXTS))
        # Scores of 16 bits for 120,000 equations and 70 runs would be 17 MB; the answer and the order within the pair take
        # 1.3 bits an equation.
        level: pl.Expr = pl.lit(None)
        if answers.schema["label"].is_integer():
            score, is_positive = pl.col("score"), (pl.col("label") == 1) == pl.col("correct")
            least, most = (extreme.over("set", "pair", is_positive) for extreme in (score.min(), score.max()))
            is_farther = pl.when(is_positive).then(score > least).otherwise(score < most)
            size = 1 + (is_farther & pl.col("pair").is_not_null()).cast(pl.Int8)
            has_level = score.is_not_null() & pl.col("label").is_in([0, 1])
            level = pl.when(has_level).then(pl.when(is_positive).then(size).otherwise(-size))
        answers = answers.with_columns(score=level.cast(pl.Int8))
        answers = answers.with_columns(correct=pl.when(pl.col("score").is_null()).then("correct"))
        tables += [table.with_columns(run=pl.lit(number, pl.Int32)) for table in (answers, epochs)]
        about = {**run.about, "sets": [name for name in run.sets if name not in left_out]}
        about = {name: entry for name, entry in about.items() if entry}
        description.append({"config": configuration.dump(run.config), "seed": run.seed, "about": about})
    table = pl.concat(tables, how="diagonal_relaxed")
    table = pl.DataFrame([column.shrink_dtype() if column.dtype.is_integer() else column for column in table])
    # equal equations follow each other, so that what runs have in common takes no space
    table = table.sort(pl.col("set").cast(pl.String), pl.int_range(pl.len()).over("set", "run"), "run")
    table = table.select(pl.col(name).cast(pl.String) if name in TEXTS else name for name in sorted(table.columns))
    records.write(path, table, {DESCRIPTION: json.dumps(description, sort_keys=True)}, level=19)


def read(path: Path) -> list[RunResult]:
    """Read the runs of a file that `write` has written. Raises DataError for any other file."""
    try:
        content = path.read_bytes()
        descriptions = json.loads(pl.read_parquet_metadata(content)[DESCRIPTION])
        table = pl.read_parquet(content)  # in which equal texts of many runs are stored once
        if lacking := [name for name in (*KEPT, "run") if name not in table.columns]:
            raise ValueError(f"no column {lacking[0]!r}")
        table = table.with_columns(pl.col(TEXTS).cast(CATEGORY))
        if table.schema["label"].is_integer():
            right = (pl.col("score") > 0) == (pl.col("label") == 1)
            table = table.with_columns(correct=pl.coalesce("correct", right))
        table_of_run = table.partition_by("run", as_dict=True, include_key=False, maintain_order=True)
        runs, is_epoch = [], pl.col("set") == EPOCHS
        for number, entry in enumerate(descriptions):
            of_run = table_of_run.get((number,), table.drop("run").clear())
            about = {**entry["about"], "measured": range_of(entry["about"].get("measured"))}
            config = configuration.from_tables(tables_of(entry["config"]))
            rows = _without_empty(of_run.filter(is_epoch).drop("set")).rows(named=True)
            rows = checked_metrics(rows, of_trees=isinstance(config, RunConfig))
            runs.append(RunResult(path, config, entry["seed"], rows, _without_empty(of_run.filter(~is_epoch), KEPT), about))
        return runs
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
    except (*DAMAGED, KeyError, TypeError, AttributeError, SyntaxError, tokenize.TokenError, ConfigurationError) as error:
        raise DataError(f"Not a complete file of records ({error!r:.200}). Make it again with `reproduce`.", path) from None


def _without_empty(table: Table, kept: Sequence[str] = ()) -> Table:
    """Return a table without the columns that are null in all rows, but for some."""
    return table.select(column for column in table if column.name in kept or column.null_count() < len(table))


# Vectors stay with the runs, so that t-SNE is not drawn again from a file of records.
def with_vectors(answers: Table) -> set[str]:
    """Return the names of the sets whose records have entries of several numbers, so that they are left out."""
    vectors = answers.filter(pl.any_horizontal(pl.lit(value=False), pl.selectors.nested().is_not_null()))
    return set(vectors["set"].cast(pl.String))
