"""What a training begins with: weights of another run, files that may be missing; what it calls; what it says when stopped."""

import os
import re
import shutil
import signal
import sys
import types
from pathlib import Path

import pytest
import torch
from each_case import assert_raises, cases
from small_runs import contents, go_on, small_config, small_run, stopped_at

from dgl_treestack import Model, Run, Vocabulary, load, plain_data
from dgl_treestack.errors import CheckpointError, ConfigurationError, DataError
from dgl_treestack.expression.language import find
from dgl_treestack.processes import Interrupted
from dgl_treestack.runs import configuration, evaluation
from dgl_treestack.training.start import prepare, start
from dgl_treestack.training.trees import TreeObjective

SMU = {"name": "tree_smu", "hidden": 4, "settings": {"stack_size": 2}}


@pytest.fixture
def saved(tmp_path):
    """A model and the folder where it is saved."""
    model = Model.build("tree_smu", hidden=4, stack_size=2, seed=5)
    return model, model.save(tmp_path / "saved").folder


def begun(folder, start_from, **changes):
    """Return the model of a run before its first step, and what it says in its log."""
    model = {**SMU, "start": str(start_from), **changes}
    config = small_config(folder, model=model, name="tuned")
    training = prepare(Run(folder / "tuned-0"), config, 0, quiet=True)
    return training.model, training.objective.notes[1:]


def same(module, other):
    ours, theirs = module.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_starts_with_the_weights_of_another_run(tmp_path, caplog):
    first = small_run(tmp_path)
    model, notes = begun(tmp_path, first.folder)
    assert same(model, first.load_model()) and notes == [f"starts with the weights of {first.folder}"]
    config = small_config(tmp_path, model={**SMU, "start": str(first.folder)}, name="tuned")
    with caplog.at_level("INFO", logger="dgl_treestack"):
        tuned = start(config, 1, tmp_path, quiet=True)
    assert "starts with the weights of" in caplog.text and "starts with the weights of" in tuned.log.read_text()
    assert tuned.config.model.start == str(first.folder) and str(first.best) in tuned.environment["data"]
    assert tuned.read_metrics()[0]["train_loss"] < first.read_metrics()[0]["train_loss"]


def test_a_run_starts_with_a_model_of_the_package(tmp_path):
    model, _ = begun(tmp_path, "tree_smu", hidden=50, settings={})
    assert same(model, load("tree_smu"))
    settings, head = {"slots": 8, "inner": 144}, {"verification": {"compare": "slots"}}
    model, notes = begun(tmp_path, "tree_slots", name="tree_slots", hidden=288, settings=settings, head_settings=head)
    assert same(model.heads, load("tree_slots").heads) and "but for" not in notes[0]


def test_a_run_starts_with_a_saved_model(tmp_path):
    leaves = Vocabulary("canonical", (*(("Symbol", f"var_{i}") for i in range(3)), ("Integer", "7")))
    model = Model.build("tree_smu", hidden=4, stack_size=2, vocabulary=leaves, seed=5)
    folder = model.double().save(tmp_path / "saved").folder
    again, _ = begun(tmp_path, folder, vocabulary="vocabulary.json")
    assert same(again, model.float()) and again.vocabulary == leaves


def test_heads_that_are_new_or_others_are_drawn_from_the_seed(tmp_path, saved):
    original, folder = saved
    model, notes = begun(tmp_path, folder)
    assert same(model, original)
    changes = {"tasks": ["verification", "function_evaluation"], "head_settings": {"verification": {"compare": "slots"}}}
    model, notes = begun(tmp_path, folder, **changes)
    drawn, _ = begun(tmp_path, "", **changes)
    assert same(model.cell, original.cell) and same(model.heads, drawn.heads)
    assert notes == [f"starts with the weights of {folder}, but for new heads.verification, heads.function_evaluation"]


def test_another_model_is_one_error_that_says_what_differs(tmp_path, saved):
    for changes, message in (
        ({"hidden": 5}, "model.hidden is 5, there 4"),
        ({"settings": {"stack_size": 3}}, "model.settings.stack_size is 3, there 2"),
        ({"settings": {}}, "model.settings.stack_size is None, there 2"),
        ({"share": "all"}, "model.share is all, there operator"),
        ({"name": "tree_lstm", "settings": {}}, "model.name is tree_lstm, there tree_smu"),
        ({"vocabulary": "released"}, "model.vocabulary is released, there canonical"),
    ):
        whole = rf"weights of 'model\.start' are of another model: .*{message}.* Set the values of {saved[1]}"
        assert_raises(ConfigurationError, whole, begun, tmp_path, saved[1], **changes)
    assert_raises(CheckpointError, "no folder of a run", begun, tmp_path, "absent")


def test_a_stopped_run_with_a_start_goes_on_from_its_checkpoint_alone(tmp_path):
    first = small_run(tmp_path)
    config = small_config(tmp_path, model={**SMU, "dropout": 0.2, "start": str(first.folder)}, name="tuned")
    whole = start(config, 0, tmp_path / "whole", quiet=True)
    with stopped_at(TreeObjective, 9), pytest.raises(Interrupted):
        start(config, 0, tmp_path / "stopped", quiet=True)
    kept = first.best.read_bytes()
    first.best.write_bytes(kept + b"0")
    assert_raises(ConfigurationError, r"best\.safetensors has changed since", go_on, whole, tmp_path / "stopped")
    first.best.unlink()
    assert contents(go_on(whole, tmp_path / "stopped").folder) == contents(whole.folder)


def test_the_words_of_a_start_are_taken(tmp_path):
    words = Vocabulary.of_words(["1", "2"])
    settings = {"form": "child_sum", "signature": find("listops"), "vocabulary": words, "tasks": "classification"}
    saved = Model.build("tree_rnn", hidden=4, seed=5, **settings)
    folder = saved.save(tmp_path / "saved").folder
    (tmp_path / "lists.tsv").write_text("2\t[MAX 2 1 ]\n9\t[MAX 2 9 ]\n")
    data = {"language": "listops", "train": [f"{tmp_path}/lists.tsv"], "validation": [f"{tmp_path}/lists.tsv"]}
    described = {"name": "tree_rnn", "hidden": 4, "vocabulary": "train", "tasks": ["classification"], "start": str(folder)}
    described = {"name": "lists", "model": {**described, "settings": {"form": "child_sum"}}, "data": data}
    model = prepare(Run(tmp_path / "lists-0"), plain_data.build(configuration.RunConfig, described), 0, quiet=True).model
    assert model.vocabulary == words and same(model, saved)


def test_a_callback_gets_every_epoch_once(tmp_path):
    """In the first of several processes."""
    config, calls = small_config(tmp_path), []

    def log(row, model):
        calls.append(dict(row))
        row.clear()  # which changes nothing
        assert isinstance(model, Model)

    whole = start(config, 0, tmp_path / "whole", quiet=True, on_epoch=log)
    rows = whole.read_metrics()
    assert calls == rows and [row["epoch"] for row in calls] == [1, 2, 3]
    calls.clear()
    with stopped_at(TreeObjective, 9), pytest.raises(Interrupted):  # in the second epoch
        start(config, 0, tmp_path / "stopped", quiet=True, on_epoch=log)
    assert [row["epoch"] for row in calls] == [1]
    start(config, 0, tmp_path / "stopped", quiet=True, resume=True, on_epoch=log)
    assert calls == rows
    second = types.SimpleNamespace(size=1, rank=1, is_first=False, first=lambda function: function())
    assert prepare(Run(tmp_path / "a"), config, 0, on_epoch=log, world=second).on_epoch is None


def test_the_documented_log_to_tensorboard(tmp_path, monkeypatch):
    """The block of docs/own-data.md, with a writer that keeps what it gets."""
    text = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text()
    (block,) = re.findall(r"```python\n((?:(?!```).)*SummaryWriter.*?)```", text, re.DOTALL)
    scalars = []
    writers, folders = types.ModuleType("torch.utils.tensorboard"), []
    writer = types.SimpleNamespace(add_scalar=lambda *scalar: scalars.append(scalar))
    writers.SummaryWriter = lambda folder: folders.append(folder) or writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", writers)
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(configuration.dump(small_config(tmp_path)))
    program = types.ModuleType("program")
    exec(block, vars(program))
    rows = Run("runs/small-1").read_metrics()
    assert folders == ["board"] and scalars == [(name, value, row["epoch"]) for row in rows for name, value in row.items()]


@cases(
    ("train", "data/paper-deeper", "treestack generate paper-deeper --output-dir data/paper-deeper"),
    ("validation", "elsewhere/paper-200k", "treestack generate paper --train-size 200000 --output-dir elsewhere/paper-200k"),
    ("test", "data/paper-1m", "treestack generate paper --train-size 1000000 --output-dir data/paper-1m"),
    ("test", "data/own", "Write its path from the folder where you work"),
)
def test_a_missing_set_names_the_command_that_generates_it(tmp_path, kind, folder, command):
    config = plain_data.replaced(small_config(tmp_path), [(f"data.{kind}", [f"{folder}/x.jsonl.gz"])])
    with pytest.raises(DataError, match=rf"^{folder}/x.jsonl.gz: Cannot be read: No such file. .*{command}"):
        start(config, 0, tmp_path / "runs", quiet=True)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("arguments", [["--seed", "3"], ["--resume", "--set", "schedule.epochs=9"]])
def test_a_stopped_command_says_how_to_go_on(tmp_path, monkeypatch, treestack, arguments):
    monkeypatch.chdir(tmp_path)
    Path("my small.toml").write_text(configuration.dump(small_config(tmp_path)))
    score = evaluation.score
    monkeypatch.setattr(evaluation, "score", lambda *arguments: os.kill(os.getpid(), signal.SIGINT) or score(*arguments))
    monkeypatch.setattr(sys, "argv", ["treestack", "train", "my small.toml", *arguments])

    def stopped():
        shutil.rmtree("runs", ignore_errors=True)
        return treestack(*sys.argv[1:], code=130)

    resume = "" if "--resume" in arguments else " --resume"
    line = f"To continue: treestack train 'my small.toml' {' '.join(arguments)}{resume}\n"
    assert stopped().endswith(f"Stopped by SIGINT; saved.\n{line}")
    monkeypatch.setenv("TREESTACK_PARENT", "1")  # a child of another command, which is continued by that
    monkeypatch.setattr("dgl_treestack.cli.train.follow_parent", lambda: None)
    assert "To continue" not in stopped()
