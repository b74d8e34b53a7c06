"""Files of records: what tables need survives, what does not fit is left out, damaged files are refused."""

import dataclasses
import json

import numpy as np
import polars as pl
import pytest
from each_case import assert_raises
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import small_config
from tables import result_of, table_of

from dgl_treestack.data import records
from dgl_treestack.errors import DataError
from dgl_treestack.results import archive, metrics, run_result
from dgl_treestack.training.start import start


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return small_config(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return run_result.read(start(dataclasses.replace(config, checkpoint_steps=50), 0, folder, quiet=True).folder)


scores = st.one_of(st.none(), st.sampled_from([-1.5, -1.0, -0.25, 0.0, 0.25, 1.0, 1.5]))


@settings(max_examples=30)
@given(st.lists(st.tuples(scores, scores, st.sampled_from(["both", "true", "false"])), min_size=1, max_size=20))
def test_what_metrics_of_equations_need_survives(config, tmp_path_factory, pairs):
    rows = []
    for i, (true, false, kept) in enumerate(pairs):
        for label, score in ((1, true), (0, false))[kept == "false" : 1 if kept == "true" else 2]:
            pair, family = (f"p{i}", f"f{i // 3}") if kept == "both" else (None, None)
            row = {"id": f"{i}{label}", "depth": 1 + i % 3, "label": label, "score": score, "pair": pair, "family": family}
            rows.append({**row, "correct": score is not None and (score > 0) == bool(label)})
    path = tmp_path_factory.mktemp("archive") / "records.parquet"
    table = table_of(rows)
    archive.write(path, [result_of(config, test=table)])
    again = archive.read(path)[0].of("test")
    for name in ("accuracy", "precision", "recall", "f1", "pairs"):
        assert metrics.METRICS[name](again) == pytest.approx(metrics.METRICS[name](table), nan_ok=True), name
    for column in ("id", "pair", "family", "depth"):
        assert again[column].to_list() == table[column].to_list(), column
    assert np.isnan(metrics.METRICS["calibration"](again)), "there are no scores"


def test_a_run_is_read_back(run, tmp_path):
    usage = {"id": "a", "depth": 2, "label": 1, "score": None, "correct": None, "usage": 1.25, "top": 0.1}
    blank = {"id": "a", "depth": 9, "label": None, "score": 0.5, "correct": True, "raw": 300, "class": 7, "answer": "x"}
    vectors = {"id": "a", "depth": 1, "label": None, "score": None, "correct": None, "h": [0.5, 0.25]}
    before = dataclasses.replace(run, about={**run.about, "values": {"neighbour": 12.5}, "measured": (2, 9)})
    for name, row in (("usage", usage), ("blanks", blank), ("expressions", vectors)):
        before = before.with_set(name, table_of([row]))
    archive.write(tmp_path / "records.parquet", [before])
    (after,) = archive.read(tmp_path / "records.parquet")
    assert (after.config, after.seed, after.rows) == (before.config, before.seed, before.rows) and len(after.rows) == 3
    known = {name: entry for name, entry in before.about.items() if entry}
    assert {**after.about, "sets": before.sets} == {**known, "checksums": [*before.about["checksums"]]}
    assert after.of("usage").select(usage.keys()).rows(named=True) == [usage]
    assert after.of("blanks").select("raw", "correct").rows() == [(300, True)]
    assert after.sets == ["usage", "blanks"], "vectors are left out"
    assert after.of("validation")["id"].to_list() == before.of("validation")["id"].to_list()

    archive.write(tmp_path / "again.parquet", [after])
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "records.parquet").read_bytes()


def test_what_runs_have_in_common_is_stored_once_and_answers_take_few_bits(run, tmp_path, config):
    archive.write(tmp_path / "one.parquet", [run])
    archive.write(tmp_path / "many.parquet", [dataclasses.replace(run, seed=seed) for seed in range(20)])
    one, many = ((tmp_path / f"{name}.parquet").stat().st_size for name in ("one", "many"))
    assert many - len(pl.read_parquet_metadata(tmp_path / "many.parquet")[archive.DESCRIPTION]) < 2 * one
    assert [again.seed for again in archive.read(tmp_path / "many.parquet")] == [*range(20)]
    i = np.arange(12_000)
    right = np.random.default_rng(0).normal(size=(9, len(i))) > 0
    names = {"id": i.astype(str), "pair": (i // 2).astype(str), "family": (i // 8).astype(str)}
    table = pl.DataFrame({**names, "depth": 8 + i % 6, "label": i % 2})
    for runs in (1, 9):
        answers = [table.with_columns(score=np.where(row == i % 2, 0.5, -0.5), correct=row) for row in right[:runs]]
        archive.write(tmp_path / f"{runs}.parquet", [result_of(config, test=records.joined([one])) for one in answers])
    size = (tmp_path / "9.parquet").stat().st_size - (tmp_path / "1.parquet").stat().st_size
    assert size < 8 * len(i) * 0.6, "of eight more runs, of which chance alone takes two bits"


def test_damaged_files_are_refused(run, tmp_path):
    path = tmp_path / "records.parquet"
    assert_raises(DataError, r"records.parquet: Cannot be read: No such file", archive.read, path)
    archive.write(path, [run])
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"no archive", content.replace(b"PAR1", b"PAR2")):
        path.write_bytes(damaged)
        assert_raises(DataError, "Make it again", archive.read, path)
    table = run.answers.with_columns(run=pl.lit(0))
    for description in ({}, {"runs": "[{}]"}, {"runs": "3"}, {"runs": "[null]"}, {"runs": "{"}):
        records.write(path, table, description)
        assert_raises(DataError, "Not a complete file of records", archive.read, path)
    records.write(path, table.drop("pair"), {"runs": json.dumps([{"config": "", "seed": 0, "about": {}}])})
    assert_raises(DataError, "no column 'pair'", archive.read, path)
