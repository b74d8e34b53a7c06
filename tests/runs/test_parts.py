"""A file that several processes evaluate has the records that one process gives it."""

import shutil
from pathlib import Path

import pytest

import dgl_treestack
from dgl_treestack.errors import DataError
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.run import Run

MODELS = Path(dgl_treestack.__file__).parent / "resources" / "models"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["tree_smu", "tree_slots"])
def test_two_processes_give_the_bytes_of_one(tmp_path, monkeypatch, model):
    monkeypatch.setattr(evaluation, "PART", 2 * evaluation.BATCH)
    for name, jobs in (("one", 1), ("two", 2)):
        shutil.copytree(MODELS / model, tmp_path / name)
        rows = evaluation.evaluate(Run.open(tmp_path / name), "bundled:quickstart/validation", jobs=jobs)
        assert len(rows) > 2 * evaluation.PART
    (one,), (two,) = (sorted((tmp_path / name / "records").glob("validation*")) for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DataError, match="no examples in the file"):
        evaluation.evaluate(Run.open(MODELS / "tree_smu"), str(tmp_path / "empty.jsonl"), jobs=2)
