"""Nets on transductions: what a run leaves, resumption, what is learned, and the table of the benchmark."""

import dataclasses
import statistics

import pytest
import torch
from small_runs import STREAMS, assert_same_when_stopped, table_of

from dgl_treestack.algorithmic.transductions import TRANSDUCTIONS
from dgl_treestack.data import records
from dgl_treestack.errors import ConfigurationError, DivergenceError
from dgl_treestack.experiments import chomsky
from dgl_treestack.experiments.protocol import EXTENTS, FEW_STEPS, SCALES, Extent, Scale
from dgl_treestack.results.run_result import read_any
from dgl_treestack.runs import configuration
from dgl_treestack.runs.sequence_configuration import TransductionConfig
from dgl_treestack.training.start import start
from dgl_treestack.training.transductions import TransductionObjective, share_right

SMALL = TransductionConfig(
    "small", "stack_manipulation", "vector_stack_rnn", {"hidden": 4}, 6, 4, 2, 3, tested=20, every=5, sequences=3
)


def test_a_run_leaves_its_accuracy_at_every_length(tmp_path):
    run = start(SMALL, 0, tmp_path, quiet=True)
    table = records.read(run.answers)
    assert table["depth"].to_list() == [7, 12, 17] and table["id"].to_list() == ["7", "12", "17"]
    assert [row["epoch"] for row in run.read_metrics()] == [1, 2] and run.best_epoch() == 2, "the last weights are evaluated"
    assert configuration.from_tables(SMALL.values()) == SMALL == run.any_config
    assert [*dataclasses.replace(SMALL, largest=40, tested=500, every=17).tested_lengths][::27] == [41, 500]


@pytest.mark.parametrize("model", chomsky.MODELS)
def test_a_run_stopped_after_any_step_goes_on_to_the_same_numbers(tmp_path, model):
    settings = {"hidden": 16} if model == "rotary_transformer" else SMALL.settings
    config = dataclasses.replace(SMALL, model=model, settings=settings, checkpoint_steps=2)
    assert_same_when_stopped(config, TransductionObjective, [(2,), (4, 1)], tmp_path)


class Knows(torch.nn.Module):
    """Answers every query of reversal, but the first with the other bit."""

    def forward(self, inputs, outputs):
        answers = inputs[: len(inputs) - outputs].flip(0)
        answers = torch.cat([1 - answers[:1], answers[1:]])
        return torch.nn.functional.one_hot(answers, 2)


def test_the_share_of_outputs_that_are_right():
    task = TRANSDUCTIONS["reverse_string"]
    assert [share_right(task, Knows(), length, 5, 0) for length in (1, 4, 10)] == [0, 0.75, 0.9]


def test_a_configuration_that_cannot_be_trained_is_one_error(tmp_path):
    for config, changes, message in (
        (SMALL, {"transduction": "reverse"}, "Unknown transduction 'reverse'"),
        (SMALL, {"settings": {"hidden": 4, "hiden": 4}}, "keyword argument 'hiden'"),
        (SMALL, {"model": "rotary_transformer", "settings": {"restarts": 2}}, "keyword argument 'restarts'"),
        (SMALL, {"steps": 0}, "'steps' is 0"),
        (STREAMS, {"task": "anbm"}, "Unknown task 'anbm'"),
        (STREAMS, {"settings": {"hidden": 4, "hiden": 4}}, "keyword argument 'hiden'"),
        (STREAMS, {"restarts": 0}, "'restarts' is 0"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            start(dataclasses.replace(config, **changes), 0, tmp_path, quiet=True)
        assert not list(tmp_path.iterdir())
    with pytest.raises(DivergenceError, match="In epoch 1 a loss is"):
        start(dataclasses.replace(SMALL, learning_rate=1e30), 0, tmp_path, quiet=True)


@pytest.mark.slow
def test_nets_learn_what_their_memory_allows(tmp_path):
    """Parity by an LSTM, and the reversal of a string by both Stack RNNs, from lengths to 8, beyond them."""
    stacks = {"hidden": 32, "stacks": 10, "noop": True, "recurrence": "full", "capacity": 0}
    for task, model, settings, rate in (
        ("parity", "lstm", {"hidden": 32}, 1e-2),
        ("reverse_string", "stack_rnn", stacks, 1e-2),
        ("reverse_string", "vector_stack_rnn", {"hidden": 32}, 6e-3),
    ):
        config = TransductionConfig(model, task, model, settings, 8, 32, 2, 250, rate, tested=16, every=3)
        run = start(config, 0, tmp_path, quiet=True)
        assert run.read_metrics()[-1]["train_accuracy"] > 0.9, model
        assert statistics.fmean(records.read(run.answers)["share"].to_list()) > 0.9, model


def test_the_table_has_the_best_and_the_median_seed(tmp_path, monkeypatch):
    monkeypatch.setitem(EXTENTS, "tiny", Extent(seeds=3, transductions=FEW_STEPS))
    monkeypatch.setitem(SCALES, "tiny", Scale("a test", {}, {}, (4,)))
    plan = chomsky.plan
    few = ("parity-lstm", "parity-rotary", "duplicate_string-lstm")
    monkeypatch.setattr(chomsky, "plan", lambda *given: [run for run in plan(*given) if run[0].name.startswith(few)])
    assert len(plan(tmp_path, EXTENTS["tiny"], 4)) == 8 * 5 * 3
    text = table_of("chomsky", tmp_path)
    runs = [read_any(path) for path in sorted((tmp_path / "runs").glob("parity-lstm-*"))]
    shares = [100 * statistics.fmean(run.answers["share"].to_list()) for run in runs]
    assert [run.seed for run in runs] == [4, 5, 6]
    (row,) = [line.split(" | ") for line in text.splitlines() if line.startswith("| parity | regular |")]
    assert row[2] == f"{max(shares):.1f} ({statistics.median(shares):.1f}) \\| 100.0"
    assert "\n| duplicate string | context-sensitive | " in text and "| 4 5 6 |" in text
    records_of_runs = [tmp_path / "chomsky" / "records.parquet"]
    assert table_of("chomsky", tmp_path / "again", train=False, from_records=records_of_runs) == text
