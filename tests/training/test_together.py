"""Seeds that are trained as one: every run is what it is by itself, up to rounding."""

import json
import logging
import os
import signal
from dataclasses import replace

import pytest
import torch
from small_runs import small_config

from dgl_treestack.cli import main
from dgl_treestack.data import records
from dgl_treestack.errors import ConfigurationError, DivergenceError
from dgl_treestack.runs import configuration, evaluation, weights
from dgl_treestack.runs.run import Run
from dgl_treestack.training.interruption import Interrupted
from dgl_treestack.training.loop import Training
from dgl_treestack.training.start import start, start_stacked

SEEDS = (0, 1, 5)


def assert_same_run(run, expected):
    """Compare metrics, weights and scores, up to what float32 loses in three epochs."""
    rows, expected_rows = ([json.loads(line) for line in each.metrics.read_text().splitlines()] for each in (run, expected))
    assert len(rows) == len(expected_rows)
    assert all(row == pytest.approx(expected_row, rel=1e-3) for row, expected_row in zip(rows, expected_rows, strict=True))
    tensors, expected_tensors = weights.read(run.best)[0], weights.read(expected.best)[0]
    assert tensors.keys() == expected_tensors.keys()
    assert all(torch.allclose(tensors[name], expected_tensors[name], rtol=1e-3, atol=1e-4) for name in tensors)
    scores, expected_scores = (
        [row["score"] for row in records.read(each.folder / "records" / "test.jsonl")] for each in (run, expected)
    )
    assert scores == pytest.approx(expected_scores, rel=1e-3, abs=1e-4)


def stop_after(steps, monkeypatch):
    """Send a signal after this many steps of all trainings."""
    learn, count = Training.learn, 0

    def counted(self, *arguments):
        nonlocal count
        learn(self, *arguments)
        count += 1
        if count == steps:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Training, "learn", counted)


@pytest.mark.parametrize("gradients", ["none", "zeros"])
def test_every_run_is_what_it_is_by_itself(tmp_path, gradients, caplog):
    caplog.set_level(logging.INFO, "dgl_treestack")
    config = small_config(tmp_path, optimizer={"learning_rate": 0.01, "gradients": gradients})
    together = start_stacked(config, SEEDS, tmp_path / "together", quiet=True)
    for seed, run in zip(SEEDS, together, strict=True):
        alone = start(config, seed, tmp_path / "alone", quiet=True)
        assert_same_run(run, alone)
        names = [{str(path.relative_to(each.folder)) for path in each.folder.rglob("*")} for each in (run, alone)]
        assert names[0] == names[1]
        logged = run.log.read_text()
        assert all(f"small-{other} " not in logged for other in SEEDS if other != seed)
        assert f"small-{seed} epoch 3:" in logged and f"small-{seed} on " in logged


@pytest.mark.parametrize("steps", [2, 10, 26])
def test_stopped_and_resumed_equals_never_stopped(tmp_path, monkeypatch, steps):
    config = small_config(tmp_path)
    whole = start_stacked(config, SEEDS, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        stop_after(steps, patch)
        with pytest.raises(Interrupted):
            start_stacked(config, SEEDS, tmp_path / "stopped", quiet=True)
    resumed = start_stacked(config, SEEDS, tmp_path / "stopped", resume=True, quiet=True)
    for run, expected in zip(resumed, whole, strict=True):
        assert run.metrics.read_text() == expected.metrics.read_text()


def test_each_goes_on_from_where_it_stands_and_ends_when_it_will(tmp_path, monkeypatch):
    config = small_config(tmp_path, schedule={"epochs": 8, "early_stopping": 2})
    alone = [start(config, seed, tmp_path / "alone", quiet=True) for seed in SEEDS]
    assert len({len(run.metrics.read_text().splitlines()) for run in alone[:2]}) == 2, "they end at different epochs"
    with monkeypatch.context() as patch:
        stop_after(5, patch)
        with pytest.raises(Interrupted):
            start(config, SEEDS[1], tmp_path / "together", quiet=True)
    start(config, SEEDS[2], tmp_path / "together", quiet=True)  # is done, and left alone
    resumed = start_stacked(config, SEEDS, tmp_path / "together", resume=True, quiet=True)
    for run, expected in zip(resumed, alone, strict=True):
        assert_same_run(run, expected)


def test_a_seed_that_diverges_is_named_and_the_others_are_saved(tmp_path, monkeypatch):
    config = small_config(tmp_path, checkpoint_steps=1000)
    whole = start(config, 0, tmp_path / "whole", quiet=True)
    score, count = evaluation.score, 0

    def spoiled(*arguments):
        nonlocal count
        count += 1
        validation = score(*arguments)
        return replace(validation, loss=float("nan")) if count == 6 else validation  # the second seed, after its last epoch

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "score", spoiled)
        with pytest.raises(DivergenceError, match="The validation loss of small-1 is nan after epoch 3"):
            start_stacked(config, (0, 1), tmp_path / "together", quiet=True)
    states = [weights.read(Run(tmp_path / "together" / f"small-{seed}").last)[1]["progress"] for seed in (0, 1)]
    assert [state["epoch"] for state in states] == [3, 2]
    for run in start_stacked(config, (0, 1), tmp_path / "together", resume=True, quiet=True):
        assert len(run.metrics.read_text().splitlines()) == 3
        assert run.folder.name != "small-0" or assert_same_run(run, whole) is None


def test_what_is_wrong_is_said_before_there_is_a_folder(tmp_path):
    config = small_config(tmp_path)
    start(config, 1, tmp_path / "runs", quiet=True)
    with pytest.raises(ConfigurationError, match=r"exists\. Go on with --resume"):
        start_stacked(config, (0, 1), tmp_path / "runs", quiet=True)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["small-1"]


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "small.toml").write_text(configuration.dump(small_config(tmp_path)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["train", "small.toml", "--seeds", "0", "1", "--stacked"])
    assert not left.value.code
    assert all((tmp_path / "runs" / f"small-{seed}" / "DONE").exists() for seed in (0, 1))
    with pytest.raises(SystemExit) as left:
        main(["train", "small.toml", "--seeds", "0", "1", "--stacked", "--jobs", "2"])
    assert left.value.code == 2
    assert "no --jobs with --stacked" in capsys.readouterr().err


def test_models_that_read_tokens_are_not_stacked(tmp_path):
    config = small_config(tmp_path, model={"name": "lstm", "hidden": 4})
    with pytest.raises(ConfigurationError, match="is for tree models; 'lstm'"):
        start_stacked(config, (0, 1), tmp_path / "runs", quiet=True)
    assert not (tmp_path / "runs").exists()
