"""Files of runs in one file: restored beside what is there, never outside of the folder."""

import json
import zipfile

import pytest

from dgl_treestack.errors import DataError
from dgl_treestack.results import run_files

KEPT = ("records.jsonl", "DONE", "trace.jsonl")
OUTSIDE = ("../DONE", "/a/DONE", "a/../../DONE", "a/b/DONE", "DONE", ".a/DONE", "a/.DONE", "a\\DONE", "a/text.txt")


@pytest.fixture
def file(tmp_path):
    for name, files in {
        "b-1": ("DONE", "records.jsonl"),
        "a-0": ("DONE", "records.jsonl", "nets.bin"),
        "open": ("records.jsonl",),
    }.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        for entry in files:
            (tmp_path / "runs" / name / entry).write_text(f"{name} {entry}")
    (tmp_path / "runs" / "a file").write_text("")
    run_files.write(tmp_path / "records.zip", "counting", (tmp_path / "runs").iterdir(), KEPT)
    return tmp_path / "records.zip"


def test_finished_runs_are_restored_without_what_tables_do_not_need(file, tmp_path):
    assert run_files.experiment_of(file) == "counting" and run_files.runs_in(file) == {"a-0", "b-1"}
    target = tmp_path / "target"
    (target / "b-1").mkdir(parents=True)
    (target / "b-1" / "DONE").write_text("of another training")
    (target / "a-0").mkdir()
    (target / "a-0" / "records.jsonl").write_text("half a training")
    run_files.restore(file, target, KEPT)
    restored = {str(path.relative_to(target)) for path in target.rglob("*")}
    assert restored == {"a-0", "a-0/DONE", "a-0/records.jsonl", "b-1", "b-1/DONE"}
    assert (target / "b-1" / "DONE").read_text() == "of another training"
    assert (target / "a-0" / "records.jsonl").read_text() == "a-0 records.jsonl"
    before = file.read_bytes()
    (tmp_path / "runs" / "open").rename(tmp_path / "elsewhere")
    run_files.write(file, "counting", [tmp_path / "runs" / name for name in ("b-1", "a-0")], ("DONE", "records.jsonl"))
    assert file.read_bytes() == before


@pytest.mark.parametrize("name", OUTSIDE)
def test_other_paths_are_refused(name, tmp_path):
    path = tmp_path / "records.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(run_files.DESCRIPTION, json.dumps({"experiment": "counting"}))
        file.writestr(name, "")
    with pytest.raises(DataError, match="which is no file of a run"):
        run_files.restore(path, tmp_path / "target", KEPT)
    assert not (tmp_path / "target").exists()


def test_too_large_files_are_refused(file, tmp_path, monkeypatch):
    monkeypatch.setattr(run_files, "MOST_BYTES", 5)
    assert run_files.experiment_of(file) == ""
    with pytest.raises(DataError, match="more than 5 bytes"):
        run_files.restore(file, tmp_path / "target", KEPT)


def test_damaged_files_are_refused(file, tmp_path):
    content = file.read_bytes()
    for damaged in (b"", content[:200], content[:80] + b"xxxx" + content[84:]):
        file.write_bytes(damaged)
        assert run_files.experiment_of(file) in ("", "counting")
        with pytest.raises(DataError, match="Make it again"):
            run_files.restore(file, tmp_path / "target", KEPT)
    with pytest.raises(DataError, match="No such file"):
        run_files.restore(tmp_path / "gone.zip", tmp_path / "target", KEPT)
