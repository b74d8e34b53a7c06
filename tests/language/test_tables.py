"""The table of language models: every model of the paper, its numbers from the runs, unfinished runs left out."""

import csv
import math

import pytest
from scipy import stats

from dgl_treestack.errors import DivergenceError
from dgl_treestack.experiments import language_model
from dgl_treestack.experiments.protocol import EXTENTS, SCALES, Extent, Scale, read_data
from dgl_treestack.experiments.reproduce import missing, reproduce
from dgl_treestack.processes import Interrupted
from dgl_treestack.results.run_result import read_any
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import read_weights
from dgl_treestack.training.text import TextObjective


@pytest.fixture(autouse=True, scope="module")
def small():
    changes = {"streams": 4, "epochs": 1, "hidden": 44, "window": 10}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXTENTS, "tiny", Extent(sentences=60, seeds=2, changes=changes))
        patch.setitem(SCALES, "tiny", Scale("a test", {}, {}, (5,)))
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the table and its runs, and what `table_of` returned."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, *table_of(folder)


def table_of(folder, **options):
    """Make the table, and return its text and the exit code."""
    shown = []
    code = reproduce(["language_model"], "tiny", folder, show=shown.append, **options)
    return "".join(shown), code


def test_the_table_has_mean_and_spread_of_the_runs(trained, tmp_path):
    (folder, text, code), paper = trained, read_data("language_model.toml")["paper"]
    table_folder = folder / "language_model"
    assert code == 0 and (table_folder / "table.md").read_text() == text
    runs = [read_any(path) for path in sorted((folder / "runs").iterdir())]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    cells_of, logarithms = {row[0]: row[1:] for row in rows[2:8]}, {}
    assert len(runs) == 8 and list(cells_of) == list(paper) == [*language_model.GRAMS, *language_model.CONFIGS]
    for label, name in language_model.CONFIGS.items():
        results = [language_model.perplexities_of(run) for run in runs if run.config.model == name]
        means = [sum(result[part] for result in results) / 2 for part in ("valid", "test")]
        assert [float(cell.split(" ± ")[0]) for cell in cells_of[label][2:4]] == pytest.approx(means, abs=0.006)
        assert cells_of[label][:2] == [f"{paper[label][part]:g}" for part in ("valid", "test")] and cells_of[label][-1] == "5 6"
        logarithms[label] = [math.log(result["test"]) for result in results]
    pairs_csv = list(csv.DictReader((table_folder / "pairs.csv").read_text().splitlines()))
    for (first, second), pair in zip(language_model.PAIRS, pairs_csv, strict=True):
        cells = next(row[2:] for row in rows if row[:2] == [first, second])
        test = stats.ttest_rel(logarithms[first], logarithms[second])
        ratio = math.exp(sum(logarithms[first]) / 2 - sum(logarithms[second]) / 2)
        assert float(cells[0]) == pytest.approx(100 * paper[first]["test"] / paper[second]["test"] - 100, abs=0.051)
        assert float(cells[1]) == pytest.approx(100 * ratio - 100, abs=0.051)
        bounds = [100 * math.expm1(bound) for bound in test.confidence_interval()]
        assert [float(pair["low"]), float(pair["high"])] == pytest.approx(bounds)
        assert float(cells[3]) == pytest.approx(test.pvalue, rel=0.01) and float(cells[4]) >= test.pvalue * 0.99
    settings = {row[0]: row[1:] for row in rows[-4:]}
    for label, name in language_model.CONFIGS.items():
        run = Run(next(run.folder for run in runs if run.config.model == name))
        size = sum(tensor.numel() for tensor in read_weights(run.best)[0].values())
        assert settings[label][0] == f"{size:,}" and settings[label][-2] == "1"
    hours = sum(run.about["cpu_seconds"] for run in runs) / 3600
    assert f"Training took {hours:.2f} CPU hours" in text
    words = len((table_folder / "text-60/text.train.txt").read_text().split())
    assert f"train {words:,}, valid" in text
    records, again = table_folder / "records.parquet", tmp_path / "again"
    assert missing(["language_model"], "tiny", again, from_records=[records]) == []
    assert table_of(again, train=False, from_records=[records]) == (text, 0)
    assert (again / "language_model" / "records.parquet").read_bytes() == records.read_bytes()


@pytest.mark.slow
def test_without_training_finished_runs_alone_are_used(trained, tmp_path):
    assert table_of(tmp_path, train=False) == ("", 0) and not (tmp_path / "language_model").exists()
    folder, complete, _ = trained
    for run in (folder / "runs").glob("language-scrn-*"):
        (run / "DONE").unlink()
    partial, _ = table_of(folder, train=False)
    assert "| SCRN" in complete and "| SCRN" not in partial and "| LSTM" in partial
    resumed, _ = table_of(folder)
    assert resumed.split(" Training took")[0] == complete.split(" Training took")[0]


def test_a_run_that_diverges_is_left_out_and_a_stop_is_passed_on(tmp_path, monkeypatch, caplog):
    step = TextObjective.step

    def stop_or_diverge(objective, *arguments):
        if "-lstm-" in objective.run.folder.name:
            raise DivergenceError("The loss of a word is nan in epoch 1.")
        if "-scrn-" in objective.run.folder.name:
            raise Interrupted(2)
        return step(objective, *arguments)

    monkeypatch.setattr(TextObjective, "step", stop_or_diverge)
    assert table_of(tmp_path) == ("", 130)
    monkeypatch.setattr(TextObjective, "step", step)
    text, _ = table_of(tmp_path, train=False)
    assert "loss of a word is nan" in caplog.text and "| RNN" in text and "| LSTM | " not in text
