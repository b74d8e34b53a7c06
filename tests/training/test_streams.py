"""Runs on streams that are killed between two files, diverge, or have a damaged checkpoint."""

import dataclasses

import pytest
import torch

from dgl_treestack.data import records
from dgl_treestack.errors import CheckpointError
from dgl_treestack.runs.sequence_configuration import Recipe, StreamConfig, StreamTests
from dgl_treestack.runs.weights import read_weights, write_weights
from dgl_treestack.training import loop
from dgl_treestack.training.start import start
from dgl_treestack.training.streams import StreamObjective

TESTS = StreamTests(largest=4, far=(6,), repeats=1, streamed=1)
SETTINGS = {"hidden": 3, "stacks": 1, "capacity": 20}
CONFIG = StreamConfig("small", "anbn", "stack_rnn", SETTINGS, 2, Recipe(updates=2), Recipe(updates=2, rate=0.02), TESTS)


def test_a_run_killed_between_its_last_answers_and_its_checkpoint(tmp_path, monkeypatch):
    whole = start(CONFIG, 0, tmp_path / "whole", quiet=True)
    count = iter(range(9))

    def killed(*arguments):
        if next(count) == 1:  # the best weights of the second epoch
            raise KeyboardInterrupt
        return write_weights(*arguments)

    monkeypatch.setattr(loop, "write_weights", killed)
    with pytest.raises(KeyboardInterrupt):
        start(CONFIG, 0, tmp_path / "killed", quiet=True)
    monkeypatch.undo()
    again = start(CONFIG, 0, tmp_path / "killed", resume=True, quiet=True)
    assert records.read(again.answers).equals(records.read(whole.answers))


def test_a_restart_that_diverges_ends_no_other(tmp_path, monkeypatch):
    step = StreamObjective.step

    def diverges(self, *arguments):
        with torch.no_grad():
            self.model.V[0] = float("nan")
        return step(self, *arguments)

    monkeypatch.setattr(StreamObjective, "step", diverges)
    assert start(CONFIG, 0, tmp_path, quiet=True).done.exists()


def test_a_segment_without_a_scored_token(tmp_path):
    config = dataclasses.replace(CONFIG, task="addition", restarts=1, recipe=Recipe(updates=1, tokens=1))
    assert start(config, 0, tmp_path, quiet=True).done.exists()


@pytest.mark.parametrize("damage", ["generator", "losses"])
def test_a_checkpoint_that_lacks_something(tmp_path, damage):
    run = start(CONFIG, 0, tmp_path, quiet=True)
    run.done.unlink()
    tensors, description = read_weights(run.last)
    tensors.pop(f"objective/{damage}", None)
    description["objective"].pop(damage, None)
    write_weights(run.last, tensors, description)
    with pytest.raises(CheckpointError, match="no checkpoint of a training"):
        start(CONFIG, 0, tmp_path, resume=True, quiet=True)


def test_rows_have_the_rate_of_their_epoch(tmp_path):
    rows = start(CONFIG, 0, tmp_path, quiet=True).read_metrics()
    assert [row["learning_rate"] for row in rows] == [0.1, 0.02]
