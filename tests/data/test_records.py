import math
import re

import pytest

from dgl_treestack import atomic
from dgl_treestack.data import records
from dgl_treestack.errors import DataError
from dgl_treestack.results.metrics import classification
from dgl_treestack.runs.run import Run


def row(i, depth, label, correct):
    return {
        "schema": 1, "id": str(i), "split": "test", "depth": depth, "label": label, "score": 0.5, "correct": correct,
    }  # fmt: skip


ROWS = [row(0, 2, 1, True), row(1, 1, 0, False), row(2, 2, 0, True), row(3, 2, 1, False), row(4, 3, None, None)]


def test_written_and_read_back(tmp_path):
    atomic.write_json_lines(tmp_path / "a.jsonl", ROWS)
    assert records.read(tmp_path / "a.jsonl") == ROWS


def test_group_by_depth_and_accuracy():
    groups = records.grouped(ROWS)
    assert list(groups) == [1, 2, 3]
    assert records.accuracy(ROWS) == 50
    assert records.accuracy(groups[2]) == pytest.approx(200 / 3)
    assert math.isnan(records.accuracy(groups[3]))
    assert records.majority(groups[2]) == pytest.approx(200 / 3)


def test_classification_counts_correct_equations_as_positive():
    metrics = classification(ROWS)
    assert metrics == pytest.approx({"accuracy": 50, "precision": 50, "recall": 50, "f1": 50})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"schema": 1', "Not a complete JSON"),
        ('{"schema": 1, "schema": 1}', "The key 'schema' is twice"),
        ('{"id": "\\ud800"}', "half of a character"),
        ('{"schema": 2, "id": ""}', "Not a record"),
        ('{"schema": 1}', "Not a record"),
    ],
)
def test_errors_name_file_and_line(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DataError, match=message) as caught:
        records.read(path)
    assert str(caught.value).startswith(f"{path}:1: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pair": [1]}, "2: 'pair' is [1], not a text"),
        ({"family": None}, "2: 'family' is None, not a text"),
        ({"depth": -1}, "2: 'depth' is -1, not a whole number from 0"),
        ({"label": True}, "2: 'label' is True, not a number, a class or null"),
        ({"score": "0.5"}, "2: 'score' is '0.5', not a number or null"),
        ({"correct": 5}, "2: 'correct' is 5, not true, false or null"),
        ({"label": "y"}, "2: The label is a class, and 'predicted' is missing"),
        ({"label": "y", "predicted": "y"}, "2: Labels are classes in some rows and numbers in others"),
    ],
)
def test_a_damaged_value_is_one_error(tmp_path, change, message):
    atomic.write_json_lines(tmp_path / "rows.jsonl", [ROWS[0], {**ROWS[0], **change}])
    with pytest.raises(DataError, match=re.escape(message)):
        records.read(tmp_path / "rows.jsonl")


def test_the_name_records_are_filed_under(tmp_path):
    files = [tmp_path / name for name in ("test.jsonl.gz", "test.json", "test.jsonl")]
    for file in files:
        file.touch()
    for i, data in enumerate(("bundled:quickstart/test", *map(str, files))):
        assert Run(tmp_path / str(i)).write_records(data, ROWS).name == "test.jsonl"
