"""Files of records: what tables need survives, what does not fit is left out, damaged files are refused."""

import dataclasses
import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import small_config

from dgl_treestack.errors import DataError
from dgl_treestack.results import archive, metrics, run_result
from dgl_treestack.training.start import start


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return run_result.read(start(small_config(folder, schedule={"epochs": 1}), 0, folder, quiet=True).folder)


scores = st.one_of(st.none(), st.sampled_from([-1.5, -1.0, -0.25, 0.0, 0.25, 1.0, 1.5]))


@settings(max_examples=30)
@given(st.lists(st.tuples(scores, scores, st.sampled_from(["both", "true", "false"])), min_size=1, max_size=20))
def test_what_metrics_of_equations_need_survives(run, tmp_path_factory, pairs):
    rows = []
    for i, (true, false, kept) in enumerate(pairs):
        alone = kept != "both"
        for label, score in ((1, true), (0, false))[kept == "false" : 1 if kept == "true" else 2]:
            pair = {} if alone else {"pair": f"p{i}", "family": f"f{i // 3}"}
            correct = score is not None and (score > 0) == bool(label)
            names = {"id": f"{i}{label}", "split": "test", "schema": 1, "pair": "", "family": ""}
            rows.append({**names, "depth": 1 + i % 3, "label": label, "score": score, "correct": correct, **pair})
    path = tmp_path_factory.mktemp("archive") / "records.zip"
    archive.write(path, [dataclasses.replace(run, test=rows)])
    (again,) = archive.read(path)
    for name in ("accuracy", "precision", "recall", "f1", "pairs"):
        assert metrics.METRICS[name](again.test) == pytest.approx(metrics.METRICS[name](rows), nan_ok=True), name
    assert [row["depth"] for row in again.test] == [row["depth"] for row in rows]
    for column in archive.NAMES:
        assert [row[column] for row in again.test] == [row[column] for row in rows], column
    assert np.isnan(metrics.METRICS["calibration"](again.test)), "there are no scores"


def test_a_run_is_read_back(run, tmp_path):
    more = {
        "usage": [{"id": "a", "depth": 2, "label": 1, "score": None, "correct": None, "usage": 1.25, "top": 0.1}],
        "blanks": [
            {"id": "a", "depth": 9, "label": None, "score": 0.5, "correct": True, "raw": 300, "class": 7, "answer": "x"}
        ],
        "expressions": [{"id": "a", "depth": 1, "h": [0.5, 0.25]}],
    }
    before = dataclasses.replace(run, more=more, values={"neighbour": 12.5}, measured=(2, 9))
    archive.write(tmp_path / "records.zip", [before])
    (after,) = archive.read(tmp_path / "records.zip")
    for field in ("config", "seed", "rows", "equations", "commit", "machine", "measured", "best_epoch", "classes", "values"):
        assert getattr(after, field) == getattr(before, field), field
    assert list(after.more["usage"]) == more["usage"]
    assert after.more["blanks"][0]["raw"] == 300 and after.more["blanks"][0]["correct"] is True
    assert after.more.keys() == {"usage", "blanks"}, "vectors are left out"

    archive.write(tmp_path / "again.zip", [after])
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "records.zip").read_bytes()


def test_equal_columns_are_stored_once(run, tmp_path):
    archive.write(tmp_path / "one.zip", [run])
    archive.write(tmp_path / "many.zip", [dataclasses.replace(run, seed=seed) for seed in range(20)])
    with zipfile.ZipFile(tmp_path / "one.zip") as one, zipfile.ZipFile(tmp_path / "many.zip") as many:
        assert one.namelist() == many.namelist()


def test_a_long_test_set_takes_less_than_two_bits_an_equation(run, tmp_path):
    generator = np.random.default_rng(0)
    rows = []
    for i, score in enumerate(generator.normal(size=40_000).tolist()):
        label = i % 2
        names = {"id": str(i), "pair": str(i // 2), "family": str(i // 8)}
        rows.append({**names, "depth": 8 + i % 6, "label": label, "score": score, "correct": (score > 0) == bool(label)})
    archive.write(tmp_path / "one.zip", [dataclasses.replace(run, test=rows)])
    with zipfile.ZipFile(tmp_path / "one.zip") as file:
        (run_of_file,) = json.loads(file.read(archive.DESCRIPTION))["runs"]
        size = {name: file.getinfo(f"arrays/{digest}.npy") for name, digest in run_of_file["sets"]["test"].items()}
    assert "correct" not in size and 8 * size["score"].compress_size < 2 * len(rows)


def test_damaged_files_are_refused(run, tmp_path):
    path = tmp_path / "records.zip"
    with pytest.raises(DataError, match=r"records.zip: Cannot be read: No such file"):
        archive.read(path)
    archive.write(path, [run])
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"no archive", content.replace(b"description", b"descriptioN")):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="Make it again"):
            archive.read(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(archive.DESCRIPTION, json.dumps({"schema": 9, "runs": []}))
    with pytest.raises(DataError, match="Its schema is 9, not 1"):
        archive.read(path)
    for runs in ([{}], 3, [None]):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(archive.DESCRIPTION, json.dumps({"schema": 1, "runs": runs}))
        with pytest.raises(DataError, match="Not a complete file of records"):
            archive.read(path)
    archive.write(path, [run])
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    arrays = {name: np.load(io.BytesIO(array)) for name, array in content.items() if name.endswith(".npy")}
    text = next(name for name, array in arrays.items() if array.dtype.kind == "S")
    for changed in (arrays[text][:-1], arrays[text][None], np.array([b"\xff"] * len(arrays[text]))):
        buffer = io.BytesIO()
        np.save(buffer, changed)
        with zipfile.ZipFile(path, "w") as file:
            for name, entry in (content | {text: buffer.getvalue()}).items():
                file.writestr(name, entry)
        with pytest.raises(DataError, match="Not a complete file of records"):
            archive.read(path)
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}], dtype=object))
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(archive.DESCRIPTION, json.dumps({"schema": 1, "runs": []}))
        file.writestr("arrays/0.npy", objects.read_bytes())
    with pytest.raises(DataError, match="allow_pickle"):
        archive.read(path)
