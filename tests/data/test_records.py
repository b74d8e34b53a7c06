import math

import polars as pl
import pytest
from each_case import assert_raises, cases
from tables import table_of

from dgl_treestack.data import records
from dgl_treestack.errors import DataError
from dgl_treestack.results.metrics import classification
from dgl_treestack.runs.run import Run


def row(i, depth, label, correct):
    return {"id": str(i), "split": "test", "depth": depth, "label": label, "score": 0.5, "correct": correct}


TABLE = table_of([row(0, 2, 1, True), row(1, 1, 0, False), row(2, 2, 0, True), row(3, 2, 1, False), row(4, 3, None, None)])


def test_written_and_read_back_and_as_plain_data_without_what_no_tree_has(tmp_path):
    table = TABLE.with_columns(h=pl.Series([[0.5, 1.0]] * 4 + [None]), id=pl.lit("aé∀"))
    records.write(tmp_path / "a.parquet", table)
    assert records.read(tmp_path / "a.parquet").equals(table)
    assert records.rows_of(TABLE)[4] == row(4, 3, None, None)
    assert records.rows_of(TABLE.with_columns(pair=pl.lit("p")))[0] == {**row(0, 2, 1, True), "pair": "p"}


def test_group_by_depth_and_accuracy():
    """Correct equations are the positive ones."""
    groups = records.by(TABLE)
    assert list(groups) == [1, 2, 3]
    assert records.accuracy(TABLE) == 50 and math.isnan(records.accuracy(groups[3]))
    assert records.accuracy(groups[2]) == pytest.approx(200 / 3) == records.majority(groups[2])
    assert classification(TABLE) == pytest.approx({"accuracy": 50, "precision": 50, "recall": 50, "f1": 50})


@cases(
    (TABLE.drop("score"), "no column 'score'"),
    (TABLE.with_columns(pair=pl.lit(1)), "column 'pair' is of another type"),
    (TABLE.with_columns(depth=-pl.col("depth")), "an id or a depth is missing"),
    (TABLE.with_columns(id=pl.lit(None, pl.String)), "an id or a depth is missing"),
    (TABLE.with_columns(label=pl.lit(value=True)), "column 'label' is of another type"),
    (TABLE.with_columns(correct=pl.lit(5)), "column 'correct' is of another type"),
    (TABLE.with_columns(label=pl.lit("y")), "there is no column 'predicted'"),
)
def test_a_damaged_table_is_one_error(tmp_path, changed, message):
    path = tmp_path / "a.parquet"
    records.write(path, changed)
    assert_raises(DataError, f"^{path}: Not a table of records.*{message}", records.read, path)
    path.write_bytes(path.read_bytes()[:-9])
    assert_raises(DataError, "Evaluate the run again", records.read, path)


def test_the_name_records_are_filed_under(tmp_path):
    files = [tmp_path / name for name in ("test.jsonl.gz", "test.json", "test.jsonl")]
    for file in files:
        file.touch()
    for i, data in enumerate(("bundled:quickstart/test", *map(str, files))):
        assert Run(tmp_path / str(i)).write_records(data, TABLE).name == "test.parquet"
