import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from runs import small_config

from dgl_treestack import records
from dgl_treestack.errors import CheckpointError, ConfigurationError, DivergenceError
from dgl_treestack.training import configuration, weights
from dgl_treestack.training.interruption import Interrupted
from dgl_treestack.training.loop import Training
from dgl_treestack.training.run import Run
from dgl_treestack.training.start import open_or_create, start


def outcome(run: Run):
    """Everything a run leaves that must not depend on interruptions."""
    tensors, description = weights.read(run.best)
    last, state = weights.read(run.last)
    files = {path.name: path.read_text() for path in sorted((run.folder / "records").iterdir())}
    return run.metrics.read_text(), files, _bytes(tensors), description, _bytes(last), state


def _bytes(tensors):
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def test_a_run_leaves_its_files(tmp_path):
    config = small_config(tmp_path)
    run = start(config, 3, tmp_path, quiet=True)
    assert run.folder == tmp_path / "small-3"
    found = {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}
    assert found == {
        "config.toml",
        "environment.json",
        "vocabulary.json",
        "metrics.jsonl",
        "train.log",
        "DONE",
        "checkpoints/best.safetensors",
        "checkpoints/last.safetensors",
        "records/validation.jsonl",
        "records/test.jsonl",
    }
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    environment = json.loads((run.folder / "environment.json").read_text())
    assert environment["seed"] == 3
    assert environment["config"] == config.hash
    assert environment["versions"]["torch"] == torch.__version__
    rows = records.read(run.records_of(config.data.test[0]))
    assert [row["id"] for row in rows] == [f"test{i}" for i in range(50)]
    assert {row["split"] for row in rows} == {"test"}


def test_best_weights_are_those_of_the_best_validation_epoch(tmp_path):
    run = start(small_config(tmp_path, schedule={"epochs": 6}), 0, tmp_path, quiet=True)
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    best = max(rows, key=lambda row: row["validation_accuracy"])
    assert weights.read(run.best)[1] == {"epoch": best["epoch"], "validation_accuracy": best["validation_accuracy"]}
    kept = [row for row in records.read(run.records_of("validation.jsonl")) if row["depth"] <= 3]
    assert records.accuracy(kept) == pytest.approx(best["validation_accuracy"])


def test_it_learns(tmp_path):
    config = small_config(tmp_path, schedule={"epochs": 40}, model={"name": "tree_lstm", "hidden": 8})
    rows = [json.loads(line) for line in start(config, 0, tmp_path, quiet=True).metrics.read_text().splitlines()]
    assert rows[-1]["train_loss"] < 0.5 * rows[0]["train_loss"]
    assert rows[-1]["train_accuracy"] > 90


def test_seeds_differ_and_repeat(tmp_path):
    config = small_config(tmp_path)
    first = start(config, 0, tmp_path / "a", quiet=True)
    again = start(config, 0, tmp_path / "b", quiet=True)
    other = start(config, 1, tmp_path / "a", quiet=True)
    assert outcome(first) == outcome(again)
    assert first.metrics.read_text() != other.metrics.read_text()
    assert first.config.hash == other.config.hash


@pytest.mark.parametrize("gradients", ["none", "zeros"])
def test_interrupted_anywhere_and_resumed_equals_never_stopped(tmp_path, monkeypatch, gradients):
    config = small_config(tmp_path, optimizer={"learning_rate": 0.01, "gradients": gradients})
    whole = outcome(start(config, 0, tmp_path / "whole", quiet=True))
    step = Training._step
    for stop_at in (1, 5, 8, 14):
        count = 0

        def counted(self, chosen, stop_at=stop_at):
            nonlocal count
            step(self, chosen)
            count += 1
            if count == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(Training, "_step", counted)
        folder = tmp_path / f"stopped-{stop_at}"
        with pytest.raises(Interrupted) as stopped:
            start(config, 0, folder, quiet=True)
        assert stopped.value.exit_code == 143
        monkeypatch.setattr(Training, "_step", step)
        assert outcome(start(config, 0, folder, resume=True, quiet=True)) == whole


def test_killed_at_arbitrary_moments_and_resumed_equals_never_killed(tmp_path):
    config = small_config(tmp_path, schedule={"epochs": 12})
    (tmp_path / "small.toml").write_text(configuration.dump(config))
    whole = outcome(start(config, 0, tmp_path / "whole", quiet=True))
    rng, kills = random.Random(0), 0
    command = [sys.executable, "-m", "dgl_treestack", "train", "small.toml", "--output-dir", "killed", "--quiet", "--resume"]
    while not (tmp_path / "killed" / "small-0" / "DONE").exists():
        process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if kills < 4:
            _wait_for_step(tmp_path / "killed" / "small-0" / "checkpoints" / "last.safetensors", process)
            time.sleep(rng.random() * 0.15)
            process.kill()
            kills += process.wait() == -signal.SIGKILL
        assert process.wait() in (0, -signal.SIGKILL)
    assert kills >= 3
    assert outcome(Run.open(tmp_path / "killed" / "small-0")) == whole


def _wait_for_step(checkpoint: Path, process: subprocess.Popen):
    """Until the process has written a checkpoint of its own, or has ended."""
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
    while process.poll() is None and (checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0) == before:
        time.sleep(0.005)


def test_ctrl_c_on_the_command_line_saves_and_exits_130(tmp_path):
    config = small_config(tmp_path, schedule={"epochs": 500})
    (tmp_path / "small.toml").write_text(configuration.dump(config))
    command = [sys.executable, "-m", "dgl_treestack", "train", "small.toml", "--output-dir", "runs"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    _wait_for_step(tmp_path / "runs" / "small-0" / "checkpoints" / "last.safetensors", process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped by SIGINT; saved." in said
    assert not (tmp_path / "runs" / "small-0" / "DONE").exists()


def test_a_loss_that_is_not_finite_stops_and_names_the_batch(tmp_path):
    config = small_config(tmp_path, batch_size=60)
    training = Training(open_or_create(config, 0, tmp_path, device="cpu", resume=False))
    with torch.no_grad():
        training.model.cell.leaves.table.fill_(float("nan"))
    with pytest.raises(DivergenceError, match=r"epoch 1, step 1\. Batch: .*train7"):
        training.train()


def test_schedule(tmp_path):
    config = small_config(
        tmp_path, schedule={"epochs": 50, "plateau": 1, "early_stopping": 4}, optimizer={"learning_rate": 0.02}
    )
    rows = [json.loads(line) for line in start(config, 0, tmp_path, quiet=True).metrics.read_text().splitlines()]
    best, stale, rate = -1.0, 0, 0.02
    for row in rows:
        assert row["learning_rate"] == pytest.approx(rate)
        stale = 0 if row["validation_accuracy"] > best else stale + 1
        best = max(best, row["validation_accuracy"])
        rate *= 0.5 if stale else 1
    assert stale == 4 or len(rows) == 50
    assert rate < 0.02


def test_zeroing_conventions_differ_only_where_an_operator_is_absent(tmp_path):
    moved = {}
    for gradients in ("none", "zeros"):
        config = small_config(tmp_path, optimizer={"gradients": gradients, "weight_decay": 0.1}, schedule={"epochs": 1})
        run = start(config, 0, tmp_path / gradients, quiet=True)
        state, _ = weights.read(run.last)
        moved[gradients] = {name: float(step) for name, step in state.items() if name.startswith("adam/step/")}
    assert moved["none"].keys() == moved["zeros"].keys()
    assert any(moved["none"][name] < moved["zeros"][name] for name in moved["none"])
    assert moved["none"]["adam/step/cell.leaves.table"] == moved["zeros"]["adam/step/cell.leaves.table"]


def test_a_folder_that_exists_is_not_overwritten(tmp_path):
    config = small_config(tmp_path)
    start(config, 0, tmp_path, quiet=True)
    with pytest.raises(ConfigurationError, match="--resume"):
        start(config, 0, tmp_path, quiet=True)
    other = configuration.override(config, ["schedule.epochs=9"])
    with pytest.raises(ConfigurationError, match="another configuration"):
        start(other, 0, tmp_path, resume=True, quiet=True)


def test_damaged_and_foreign_folders(tmp_path):
    config = small_config(tmp_path)
    run = start(config, 0, tmp_path, quiet=True)
    whole = run.best.read_bytes()
    for damage in (whole[:-50], whole[:4], b"", b"\x80\x04pickle"):
        run.best.write_bytes(damage)
        with pytest.raises(CheckpointError, match="not a safetensors file"):
            run.load_model()
    run.best.unlink()
    with pytest.raises(CheckpointError, match="Is the run trained"):
        run.load_model()
    weights.write(run.best, {"cell.leaves.table": torch.zeros(3, 3)}, {})
    with pytest.raises(CheckpointError, match="does not fit"):
        run.load_model()
    with pytest.raises(CheckpointError, match="not a run folder"):
        Run.open(tmp_path / "nothing")


def test_training_without_data_is_refused(tmp_path):
    config = small_config(tmp_path, data={"train": [], "validation": []})
    with pytest.raises(ConfigurationError, match=r"data\.train"):
        start(config, 0, tmp_path, quiet=True)


def test_a_gpu_that_is_not_there(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigurationError, match="not available here"):
        start(small_config(tmp_path), 0, tmp_path, device="cuda")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_several_runs_saves_all_of_them(tmp_path, number, code):
    (tmp_path / "small.toml").write_text(configuration.dump(small_config(tmp_path, schedule={"epochs": 500})))
    command = [sys.executable, "-m", "dgl_treestack", "train", "small.toml", "--seeds", "0", "1", "2", "--jobs", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for seed in (0, 1):
        _wait_for_step(tmp_path / "runs" / f"small-{seed}" / "checkpoints" / "last.safetensors", process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.count("; saved.") == 2
    assert not (tmp_path / "runs" / "small-2").exists()
