"""Training with recorded steps, as on a GPU; a tape of operations stands for the CUDA graph."""

import math

import numpy as np
import pytest
import tape
import torch
from small_runs import assert_same_when_stopped, small_config, small_run, write_data

from dgl_treestack.data import formats
from dgl_treestack.errors import DivergenceError
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import draw_key
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import read_weights
from dgl_treestack.training import recorded
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.training.recorded import RecordedStep
from dgl_treestack.training.start import prepare
from dgl_treestack.training.trees import TreeObjective

TREE = {"name": "tree_smu", "hidden": 4, "dropout": 0.2, "settings": {"stack_size": 2}}


@pytest.fixture
def recording(monkeypatch):
    monkeypatch.setattr(recorded, "recorder", lambda device: tape.record)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": {"learning_rate": 0.01, "gradients": "zeros", "clip": 0.5, "weight_decay": 0.01}},
        {"model": {**TREE, "masks": "subtree"}, "schedule": {"epochs": 3, "warmup": 1, "decay": "cosine"}},
        {"model": {"name": "tree_lstm_child_sum", "hidden": 4, "share": "all"}},
        {"model": {"name": "tree_slots", "hidden": 8, "dropout": 0.1}},
    ],
)
def test_recorded_steps_train_as_others_do(tmp_path, recording, changes):
    """Some batches of a run are recorded, the last one of every epoch is not full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "recorder", lambda device: None)
        plain = small_run(tmp_path / "plain", **changes)
    calls, call = [], recorded.RecordedStep.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded.RecordedStep, "__call__", lambda self, *given: calls.append(1) or call(self, *given))
        run = small_run(tmp_path / "recorded", **changes)
    assert len(calls) >= 12  # of 3 epochs of 6 or 7 full batches
    for wanted, actual in zip(plain.read_metrics(), run.read_metrics(), strict=True):
        assert actual == pytest.approx(wanted, rel=1e-3)
    (before, _), (after, _) = read_weights(plain.last), read_weights(run.last)
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "settings", "optimizer"),
    [
        ("tree_smu", {"dropout": 0.2}, {"clip": 0.5}),
        ("tree_lstm", {"dropout": 0.2, "masks": "subtree"}, {"gradients": "zeros", "weight_decay": 0.01}),
        ("tree_lstm_child_sum", {"share": "all"}, {}),
    ],
)
def test_recorded_steps_have_the_numbers_of_others_in_double_precision(tmp_path, name, settings, optimizer):
    examples, config = list(formats.read_examples([write_data(tmp_path / "train.jsonl", 120)])), OptimizerConfig(**optimizer)
    models = [Model.build(name, 5, seed=0, **settings).double().train() for _ in range(2)]
    plain, other = (RowOptimizer(model, config) for model in models)
    dataset, source = models[0].prepare(examples), np.random.default_rng(0)
    batches = [source.permutation(120)[:16] for _ in range(12)]
    step = RecordedStep(models[1], other, config, dataset, batches[:8], lambda losses, _: losses.mean(), [], record=tape.record)
    for i, positions in enumerate(batches):
        host = step.indices(positions, draw_key(torch.Generator().manual_seed(i)))
        if host is None:
            continue
        step(host, 1e-3)
        batch = dataset.batch(positions)
        losses = models[0].losses(models[0](batch, generator=torch.Generator().manual_seed(i)), batch)
        plain.zero()
        losses.mean().backward()
        plain.collect()
        gradients = [row.grad for row in plain.parameters if row.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        for gradient in gradients if 0 < config.clip < norm else ():
            gradient.mul_(config.clip / norm)
        plain.step(1e-3)
        loss, outputs, _, steps, fault = step.read()
        assert (outputs, steps, fault) == (16, 1, 0) and loss == pytest.approx(float(losses.detach().sum()), rel=1e-10)
    actual = other.tensors()
    assert actual.keys() == plain.tensors().keys()
    for key, wanted in plain.tensors().items():
        torch.testing.assert_close(actual[key], wanted, rtol=1e-9, atol=1e-12, msg=key)
    for wanted, parameter in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(parameter, wanted, rtol=1e-9, atol=1e-12)


def test_a_run_of_recorded_steps_that_is_stopped_ends_like_one_that_was_not(tmp_path, recording):
    assert_same_when_stopped(small_config(tmp_path), TreeObjective, [(1,), (5, 3), (8, 8)], tmp_path)


def test_a_recorded_step_that_diverges_changes_nothing_and_names_its_batch(tmp_path, recording):
    training = prepare(Run(tmp_path / "small-0"), small_config(tmp_path), 0)
    objective = training.objective
    with torch.no_grad():
        objective.model.cell.leaves.table.fill_(math.inf)
    with pytest.raises(DivergenceError, match=r"not finite \d+ steps before the last one\. Batch: train\d+"):
        training.train()


@pytest.mark.parametrize("changes", [{"optimizer": {"method": "AdamW"}}, {"engine": "topo"}, {"batch_size": 1000}])
def test_other_runs_are_not_recorded(tmp_path, recording, changes):
    assert prepare(Run(tmp_path / "small-0"), small_config(tmp_path, **changes), 0).objective.recorded is None
