"""The table of language models: every model of the paper, its numbers from the runs, unfinished runs left out."""

import csv
import json
import math

import pytest
from scipy import stats

from dgl_treestack.errors import DivergenceError
from dgl_treestack.language import experiment, tables
from dgl_treestack.language.experiment import CONFIGS, Extent
from dgl_treestack.language.tables import GRAMS, PAIRS, PAPER
from dgl_treestack.processes import Interrupted
from dgl_treestack.results import run_files
from dgl_treestack.runs.weights import read_weights


@pytest.fixture(autouse=True)
def small(monkeypatch):
    changes = {"streams": 4, "epochs": 1, "hidden": 44, "window": 10}
    monkeypatch.setitem(tables.EXTENTS, "tiny", Extent(sentences=60, seeds=2, changes=changes))


def test_the_table_has_mean_and_spread_of_the_runs(tmp_path):
    runs = tables.runs(tmp_path, "tiny", 5)
    text = tables.reproduce(tmp_path, "tiny", 5)
    assert len(runs) == 8 and all((run / "DONE").exists() for run in runs) and (tmp_path / "table.md").read_text() == text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    cells_of = {row[0]: row[1:] for row in rows[2:8]}
    assert list(cells_of) == list(PAPER) == [*GRAMS, *CONFIGS]
    for label, name in CONFIGS.items():
        folders = [run for run in runs if run.name.startswith(f"language-{name}-")]
        results = [json.loads((run / "result.json").read_text()) for run in folders]
        means = [sum(result[part] for result in results) / 2 for part in ("valid", "test")]
        assert [float(cell.split(" ± ")[0]) for cell in cells_of[label][2:4]] == pytest.approx(means, abs=0.006)
        assert cells_of[label][:2] == [f"{value:g}" for value in PAPER[label]] and cells_of[label][-1] == "5 6"
    logarithms = {
        label: [
            math.log(json.loads((run / "result.json").read_text())["test"])
            for run in runs
            if run.name.startswith(f"language-{name}-")
        ]
        for label, name in CONFIGS.items()
    }
    pairs_csv = list(csv.DictReader((tmp_path / "pairs.csv").read_text().splitlines()))
    for (first, second), pair in zip(PAIRS, pairs_csv, strict=True):
        cells = next(row[2:] for row in rows if row[:2] == [first, second])
        test = stats.ttest_rel(logarithms[first], logarithms[second])
        ratio = math.exp(sum(logarithms[first]) / 2 - sum(logarithms[second]) / 2)
        assert float(cells[0]) == pytest.approx(100 * PAPER[first][1] / PAPER[second][1] - 100, abs=0.051)
        assert float(cells[1]) == pytest.approx(100 * ratio - 100, abs=0.051)
        bounds = [100 * math.expm1(bound) for bound in test.confidence_interval()]
        assert [float(pair["low"]), float(pair["high"])] == pytest.approx(bounds)
        assert float(cells[3]) == pytest.approx(test.pvalue, rel=0.01) and float(cells[4]) >= test.pvalue * 0.99
    settings = {row[0]: row[1:] for row in rows[-4:]}
    for label, name in CONFIGS.items():
        weights, _ = read_weights(next(run for run in runs if run.name.startswith(f"language-{name}-")) / "best.safetensors")
        assert settings[label][0] == f"{sum(tensor.numel() for tensor in weights.values()):,}" and settings[label][-2] == "1"
    seconds = sum(json.loads((run / "metrics.jsonl").read_text())["cpu_seconds"] for run in runs)
    assert f"Training took {seconds / 3600:.2f} CPU hours" in text
    words = len((tmp_path / "text-60/text.train.txt").read_text().split())
    assert f"train {words:,}, valid" in text
    run_files.write(tmp_path / "records.zip", "language_model", runs, tables.KEPT)
    run_files.restore(tmp_path / "records.zip", tmp_path / "again" / "runs", tables.KEPT)
    assert tables.reproduce(tmp_path / "again", "tiny", 5, training=False) == text


@pytest.mark.slow
def test_without_training_finished_runs_alone_are_used(tmp_path):
    assert tables.reproduce(tmp_path, "tiny", 5, training=False) == "" and not (tmp_path / "table.md").exists()
    complete = tables.reproduce(tmp_path, "tiny", 5)
    for run in (tmp_path / "runs").glob("language-scrn-*"):
        (run / "DONE").unlink()
    partial = tables.reproduce(tmp_path, "tiny", 5, training=False)
    assert "| SCRN" in complete and "| SCRN" not in partial and "| LSTM" in partial
    assert tables.reproduce(tmp_path, "tiny", 5, jobs=2) == complete, "resumed by two processes"


def test_a_run_that_diverges_is_left_out_and_a_stop_is_passed_on(tmp_path, monkeypatch, caplog):
    train = experiment.Run.train

    def stop_or_diverge(run):
        if "-lstm-" in run.folder.name:
            raise DivergenceError("The entropy is nan in epoch 1. Lower learning_rate.")
        if "-scrn-" in run.folder.name:
            raise Interrupted(2)
        train(run)

    monkeypatch.setattr(experiment.Run, "train", stop_or_diverge)
    with pytest.raises(Interrupted):
        tables.reproduce(tmp_path, "tiny", 5)
    monkeypatch.setattr(experiment.Run, "train", train)
    text = tables.reproduce(tmp_path, "tiny", 5, training=False)
    assert "The entropy is nan" in caplog.text and "| RNN" in text and "| LSTM | " not in text
