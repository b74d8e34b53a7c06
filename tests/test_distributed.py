"""A run over several processes is the run of one process with the same batches."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from each_case import cases
from small_runs import small_config
from test_languages import write_files
from torchrun_script import train_all

from dgl_treestack import Run, plain_data
from dgl_treestack.data import records
from dgl_treestack.data.formats import read_examples
from dgl_treestack.distributed import World
from dgl_treestack.runs import configuration
from dgl_treestack.runs.weights import read_weights

SCRIPT = Path(__file__).with_name("torchrun_script.py")
SLOW_MONITOR = ("--monitor-interval", "10")  # or it kills the first process
EXACT = {"model.dropout": 0.0, "compile": "off"}  # every process draws its own dropout
# name -> values replaced in the configuration of a small run
VERIFICATION = {
    "smu": {"schedule.epochs": 8},
    "none": {"optimizer.gradients": "none", "schedule.epochs": 2},
    "muon": {"optimizer.method": "muon", "optimizer.clip": 0.1, "model.hidden": 8, "schedule.epochs": 2},
    "topo": {"engine": "topo", "schedule.epochs": 2},
    "values": {"signals.value": 1.0, "schedule.epochs": 2},
    "functions": {"model.tasks": ["function_evaluation", "verification"], "schedule.epochs": 2},
}

# name -> kind of trees of another language, values replaced
OTHER_TREES = {
    "trees": ("trees", {}),
    "pairs": ("pairs", {}),
    "nodes": ("nodes", {}),
    "lstm": ("trees", {"model.name": "lstm", "model.settings": {}}),
    "transformer": ("trees", {"model.name": "transformer", "model.settings": {}}),
}


def write_runs(folder, names):
    """Write data, and a configuration per name."""
    folder.mkdir()
    base = small_config(folder)
    count = sum(example.equation.depth <= 3 for example in read_examples([str(folder / "train.jsonl")]))
    with open(folder / "train.jsonl", "a") as file:
        for i in range(40 + (1 - count) % 8):  # the last batch of an epoch is a single tree
            file.write(json.dumps({"id": f"n{i}", "label": 1, "text": f"sin({i / 20:.2f}) = {math.sin(i / 20):.2f}"}) + "\n")
    for kind in {kind for name, (kind, _) in OTHER_TREES.items() if name in names}:
        (folder / kind).mkdir()
        write_files(folder / kind, kind)
    for name in names:
        config, changes = base, {**EXACT, "name": name, **VERIFICATION.get(name, {})}
        if name in OTHER_TREES:
            kind, replaced = OTHER_TREES[name]
            config = configuration.load(folder / kind / "run.toml")
            changes |= {**replaced, "data.language": str(folder / kind / "own.toml"), "schedule.epochs": 1}
            for part in ("train", "validation", "test"):
                changes[f"data.{part}"] = [str(folder / kind / getattr(config.data, part)[0])]
        config = plain_data.override(config, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
        folder.joinpath(f"run-{name}.toml").write_text(configuration.dump(config))
    return folder


def torchrun(processes, *arguments, options=(), script=SCRIPT, code=0):
    """Start a script by torchrun; return the finished process."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *options]
    finished = subprocess.run([*launcher, str(script), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert finished.returncode == code, finished.stderr
    return finished


def losses_of(output):
    return json.loads((output / "losses.json").read_text())


def train_alone(folder, output):
    """Train the configurations of a folder in this process."""
    try:
        train_all(folder, output)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The configurations, and the runs of one process."""
    folder = tmp_path_factory.mktemp("distributed")
    write_runs(folder / "given", [*VERIFICATION, *OTHER_TREES])
    (folder / "alone").mkdir()
    train_alone(folder / "given", folder / "alone")
    return folder


@pytest.mark.slow
def test_losses_weights_and_records_are_those_of_one_process(alone):
    output = alone / "three"
    output.mkdir()
    torchrun(3, alone / "given", output)
    expected, losses = losses_of(alone / "alone"), losses_of(output)
    assert losses.keys() == expected.keys() == {*VERIFICATION, *OTHER_TREES}
    assert len(losses["smu"]) >= 80
    for name, of_steps in losses.items():
        assert of_steps == pytest.approx(expected[name], rel=1e-6), name
        run, other = Run(output / f"{name}-0"), Run(alone / "alone" / f"{name}-0")
        assert run.done.read_text() == other.done.read_text(), name
        tensors, others = read_weights(run.last)[0], read_weights(other.last)[0]
        assert tensors.keys() == others.keys(), f"{name}: the same parameters were ever updated"
        for key, tensor in tensors.items():
            assert torch.allclose(tensor, others[key], rtol=1e-5, atol=1e-8), (name, key)
        for path in sorted((other.folder / "records").glob("*.parquet")):
            rows, others_rows = records.read(run.folder / "records" / path.name), records.read(path)
            assert rows["id"].equals(others_rows["id"]), "file order"
            scores = [table["score"].to_numpy() for table in (rows, others_rows)]
            assert np.allclose(*scores, rtol=1e-4, atol=1e-6, equal_nan=True), name
            assert rows["correct"].equals(others_rows["correct"]), name


@pytest.mark.slow
def test_stopped_and_resumed_with_other_numbers_of_processes(alone, tmp_path):
    given = write_runs(tmp_path / "given", ["smu"])
    losses = []
    for processes, step, steps in ((2, 21, 22), (3, 40, 63)):
        torchrun(processes, given, tmp_path, "signal", step, code=1)
        losses += losses_of(tmp_path)["smu"]
        assert len(losses) == steps, "stopped when all know of the signal: after the next step, or an epoch"
    train_alone(given, tmp_path)
    losses += losses_of(tmp_path)["smu"]
    assert losses == pytest.approx(losses_of(alone / "alone")["smu"], rel=1e-6)


@pytest.mark.slow
def test_when_a_process_dies_the_others_say_so_and_a_restart_goes_on(alone, tmp_path):
    given = write_runs(tmp_path / "given", ["smu"])
    finished = torchrun(2, given, tmp_path, "die", 21, options=(*SLOW_MONITOR, "--max-restarts", "1"))
    assert finished.stderr.count("error: Another process of this run has ended") == 1
    assert 'torchrun_script.py", line' not in finished.stderr, "no traceback of ours"
    expected, losses = losses_of(alone / "alone")["smu"], losses_of(tmp_path)["smu"]
    assert losses == pytest.approx(expected[len(expected) - len(losses) :], rel=1e-6)
    assert len(losses) < len(expected) - 15, "from the checkpoint on"


@pytest.mark.slow
def test_errors_of_one_process_reach_all(tmp_path):
    script = tmp_path / "errors.py"
    script.write_text("""
import sys
from dgl_treestack.distributed import World
from dgl_treestack.errors import CheckpointError, TreestackError

def damaged():
    raise CheckpointError("damaged")

world = World.join("cpu")
assert world.first(lambda: "read once") == "read once"
assert world.gathered([world.rank] * (world.rank + 1)) == ([0, 1, 1] if world.is_first else [1, 1])
world.check_same("data", b"the same", b"here")
for action in (lambda: world.first(damaged), lambda: world.check_same("data", bytes([world.rank]))):
    try:
        action()
    except TreestackError as error:
        sys.stdout.write(f"{type(error).__name__} {error}\\n")  # one write, as two processes share the pipe
""")
    lines = torchrun(2, script=script).stdout.splitlines()
    assert lines.count("CheckpointError damaged") == 2
    assert lines.count("ConfigurationError The data differ from process to process. Copy the same files to all machines.") == 2


@cases(("reproduce",), ("train", "quickstart/tree_rnn", "--jobs", "2"), ("train", "--data", ".", "language_model/rnn"))
def test_torchrun_is_for_training_alone(monkeypatch, treestack, arguments):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "torchrun" in treestack(*arguments, code=2)


def test_shares_of_a_batch():
    sizes = np.random.default_rng(0).integers(3, 60, 64)
    for size in (1, 2, 3, 5):
        nodes = np.bincount(World(0, size).shares(sizes), weights=sizes, minlength=size)
        assert nodes.max() - nodes.min() <= 60, "about as many nodes for all"
        assert np.concatenate([np.arange(11)[World(rank, size).part(11)] for rank in range(size)]).tolist() == list(range(11))
