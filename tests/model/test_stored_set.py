"""Columns on disk are those in memory, for any parts, and what is trained on them is the same to the last bit."""

import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from each_case import assert_raises
from every_cell import VOCABULARY, some_trees, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import small_config
from trees import random_equation, random_tree

from dgl_treestack import Equation, Example, Expression, Forest, Model, Run, Vocabulary, plain_data
from dgl_treestack.data import formats
from dgl_treestack.data.forest import NODE
from dgl_treestack.data.formats.example import read_tree
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.expression.language import from_dict
from dgl_treestack.model import stored_set
from dgl_treestack.model.dataset import AT_ONCE
from dgl_treestack.model.stored_set import MANIFEST
from dgl_treestack.runs import configuration
from dgl_treestack.training import build
from dgl_treestack.training.start import start

PHRASES = from_dict({"name": "phrases", "notation": "labelled", "classes": ["bad", "so", "good"], "operators": {"compose": 2}})


def model_of(*names):
    return Model.build("tree_lstm", 4, "canonical", names or ("verification",), seed=0)


def stored(model, examples, folder, **changes):
    """The columns of examples that are in a file; its name does not matter."""
    path = folder / "train.jsonl"
    formats.write(path, examples)
    arguments = {"selection": [], "group_by": "depth", **changes}
    return stored_set.prepare_on_disk(model, [str(path)], examples, **arguments)


def assert_same(on_disk, in_memory):
    everything = np.arange(len(in_memory))
    assert len(on_disk) == len(in_memory)
    for forest in (on_disk.forest.select(everything), on_disk.forest):
        assert all(forest.expression(i) == in_memory.forest.expression(i) for i in everything)
        for name in {*NODE.names, "token", "number"} - {"leaf"}:  # the tables of leaves may have another order
            assert np.array_equal(getattr(forest, name), getattr(in_memory.forest, name)), name
    for name in ("offsets", "nodes", "sides", "targets", "task", "groups"):
        assert np.array_equal(getattr(on_disk, name), getattr(in_memory, name)), name
    assert list(on_disk.ids) == list(in_memory.ids) and on_disk.ids[-1] == in_memory.ids[-1]
    assert on_disk.measured("depth") == in_memory.measured("depth")
    assert np.array_equal(on_disk.forest.depths, in_memory.forest.depths)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 30), part=st.integers(1, 12))
def test_columns_are_those_in_memory(seed, count, part, tmp_path_factory):
    rng = random.Random(seed)
    labels, pairs = [0, 1, None], ["", "p", "q"]
    trees = [random_equation(rng, rng.randrange(1, 5)) for _ in range(count)]
    examples = [Example(tree, rng.choice(labels), f"é{i}", pair=rng.choice(pairs)) for i, tree in enumerate(trees)]
    examples.append(Example(random_equation(rng, 2), 1, "last"))
    model = model_of()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_set, "PART", part)
        on_disk = stored(model, examples, tmp_path_factory.mktemp("columns"))
    assert_same(on_disk, model.prepare(examples).with_targets())


def test_columns_of_several_tasks_and_of_labels_at_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_set, "PART", 3)
    rng = random.Random(5)
    mixed = [Example(random_equation(rng, 3), i % 2, str(i)) for i in range(8)]
    numeric = [Example(Equation.of(random_tree(rng, 2), Expression.leaf("Number", "1.29")), 1, f"n{i}") for i in range(4)]
    model = model_of("function_evaluation", "verification")
    assert_same(stored(model, [*mixed, *numeric], tmp_path), model.prepare([*mixed, *numeric]).with_targets())
    texts = ("(good (so a) (- (- b) (bad c)))", "(- (- a) (- b))", "(bad c)", "(- (- b) (bad c))")
    trees = [read_tree(text, PHRASES) for text in texts]
    phrases = [Example(tree, (labels or (None,))[0], str(i), labels=labels) for i, (tree, labels) in enumerate(trees)]
    model = Model.build("tree_lstm", 4, Vocabulary.of_words("abc"), "node_classification", PHRASES, seed=0)
    on_disk = stored(model, phrases, tmp_path)
    assert_same(on_disk, model.prepare(phrases).with_targets())
    assert len(on_disk) == 3 and len(on_disk.targets) == 5


@pytest.mark.parametrize("more", [{}, {"signals": {"value": 0.3}}])
def test_a_run_on_disk_is_the_run_in_memory(tmp_path, more, monkeypatch, caplog, treestack):
    monkeypatch.setattr(stored_set, "PART", 7)
    config = plain_data.override(small_config(tmp_path, **more), ["data.pairs_together=true", "data.percent=80"])
    (tmp_path / "small.toml").write_text(configuration.dump(config))
    caplog.set_level("INFO", "dgl_treestack")
    treestack("train", tmp_path / "small.toml", "--output-dir", tmp_path / "by command", "--columns", "disk")
    assert " examples in " in caplog.text
    runs = [start(config, 0, tmp_path / place, columns=place, quiet=True) for place in ("memory", "disk", "auto")]
    runs.append(Run.open(tmp_path / "by command" / "small-0"))
    for run in runs[1:]:
        assert run.metrics.read_bytes() == runs[0].metrics.read_bytes()
        assert run.best.read_bytes() == runs[0].best.read_bytes()
        assert [*run.folder.glob("records/*.parquet")]
    assert len(list((tmp_path / "train.jsonl.columns").iterdir())) == 1


def test_large_files_are_on_disk_where_they_can_be(tmp_path, monkeypatch):
    config = small_config(tmp_path)
    assert not build.is_on_disk(config, "auto", {})
    monkeypatch.setattr(build, "LARGE", 10)
    assert build.is_on_disk(config, "auto", {}) and not build.is_on_disk(config, "memory", {})
    assert not build.is_on_disk(small_config(tmp_path, signals={"value": 0.1}), "auto", {})
    start(config, 0, tmp_path, quiet=True)
    assert (tmp_path / "train.jsonl.columns").is_dir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        assert not build.is_on_disk(config, "auto", {}), "a folder that cannot be written"
    monkeypatch.setattr(build.tasks()["verification"], "__module__", "theirs")
    assert not build.is_on_disk(config, "auto", {}), "a task of another package"


def test_columns_are_written_once_and_those_of_a_file_that_has_changed_replaced(tmp_path, monkeypatch):
    rng, model = random.Random(1), model_of()
    examples = [Example(random_equation(rng, 2), 1, str(i)) for i in range(6)]
    first, other = stored(model, examples, tmp_path), stored(model, examples, tmp_path, selection=[3])
    folder = tmp_path / "train.jsonl.columns"
    assert len(list(folder.iterdir())) == 2 and len(first) == len(other)
    with monkeypatch.context() as patch:
        patch.setattr(stored_set, "write", None)  # they are written once
        assert len(stored(model, examples, tmp_path)) == 6
    (folder / ".killed").mkdir()
    (folder / ".killed" / "keys.bin").write_bytes(b"...")
    assert len(stored(model, examples[:4], tmp_path)) == 4
    assert len(list(folder.iterdir())) == 1
    (columns,) = folder.iterdir()
    with (columns / "nodes.bin").open("ab") as file:
        file.write(b"x")
    assert_raises(DataError, "columns are damaged", stored, model, examples[:4], tmp_path)
    (columns / MANIFEST).write_text("{")
    assert_raises(DataError, "columns are damaged", stored, model, examples[:4], tmp_path)


def test_what_cannot_be_on_disk_is_said(tmp_path, monkeypatch):
    rng, model = random.Random(1), model_of()
    examples = [Example(random_equation(rng, 2), 1, str(i)) for i in range(6)]
    assert_raises(DataError, "occurs twice", stored, model, [*examples, Example(examples[0].equation, 1, "3")], tmp_path)
    assert not [*(tmp_path / "train.jsonl.columns").iterdir()]
    (tmp_path / "other.jsonl.columns").write_text("")
    (tmp_path / "train.jsonl").rename(tmp_path / "other.jsonl")
    with pytest.raises(OutputError, match="columns cannot be written"):
        stored_set.prepare_on_disk(model, [str(tmp_path / "other.jsonl")], examples, selection=[], group_by="depth")
    config = small_config(tmp_path)
    with pytest.raises(ConfigurationError, match="is in memory"):
        data = {"train": model.dataset(config.data.train)}
        start(config, 0, tmp_path, data=data, columns="disk", quiet=True)
    monkeypatch.setattr(type(model.heads["verification"]), "__module__", "theirs")  # as if it were a user's
    assert_raises(ConfigurationError, "'verification' has changed", stored, model, examples, tmp_path)


@pytest.mark.slow
def test_processes_that_prepare_at_once_wait_for_each_other(tmp_path):
    (tmp_path / "small.toml").write_text(configuration.dump(small_config(tmp_path)))
    command = [sys.executable, "-m", "dgl_treestack", "train", str(tmp_path / "small.toml"), "--columns", "disk"]
    processes = [subprocess.Popen([*command, "--output-dir", str(tmp_path / name)]) for name in ("first", "second")]
    assert [process.wait() for process in processes] == [0, 0]
    metrics = {(tmp_path / name / "small-0" / "metrics.jsonl").read_text() for name in ("first", "second")}
    assert len(metrics) == 1
    assert len(list((tmp_path / "train.jsonl.columns").iterdir())) == 1


TEXTS = ("sin(x) = y", "x + y*sin(x) = 2", "x = x", "cos(x + y) + cos(x + y) = tanh(2)**y")


@pytest.fixture
def model():
    return Model.build("tree_smu", 6, VOCABULARY, seed=0, stack_size=2, dropout=0.5).double().eval()


@pytest.fixture
def dataset(model):
    trees = [Equation.parse(text) for text in TEXTS]
    trees += [Equation.of(tree, Expression.parse("x")) for tree in some_trees() if not isinstance(tree, Equation)]
    return model.prepare([Example(tree, 1, str(i)) for i, tree in enumerate(trees)])


@pytest.mark.parametrize("engine", ["levels", traced])
def test_a_graph_is_made_only_if_somebody_asks_and_later_plans_see_its_changes(model, dataset, engine):
    batch = dataset.batch(np.arange(len(dataset)))
    model.train()
    output = model(batch, engine, generator=torch.Generator().manual_seed(1))
    assert isinstance(batch.trees, Forest)
    assert torch.allclose(output, model(batch, "topo", generator=torch.Generator().manual_seed(1)))
    assert batch.trees is batch.graph
    model.eval()
    first, batch = dataset.in_order(np.arange(4).repeat(2), 4)
    model(first, engine)  # makes the plans of both
    before = model(dataset.batch(np.arange(4).repeat(2)[4:]), engine)
    batch.graph.ndata["token"] = torch.where(batch.graph.ndata["token"] >= 0, 3, -1)
    assert torch.allclose(model(batch, engine), model(batch, "topo")) and not torch.allclose(model(batch, engine), before)
    model.train()  # with a mask per node, which needs another plan
    after, by_topo = (model(batch, name, generator=torch.Generator().manual_seed(1)) for name in (engine, "topo"))
    assert torch.allclose(after, by_topo) and not torch.allclose(after, before)


@pytest.mark.parametrize("engine", ["levels", traced])
def test_batches_made_together_are_those_made_alone(model, dataset, engine):
    order = np.random.default_rng(0).integers(len(dataset), size=31)
    together = list(dataset.in_order(order, 3))
    alone = [dataset.batch(order[start : start + 3]) for start in range(0, len(order), 3)]
    assert len(together) == len(alone) > AT_ONCE
    for batch, expected in zip(together, alone, strict=True):
        assert torch.equal(model(batch, engine), model(expected, engine))
        assert torch.equal(batch.targets.nan_to_num(), expected.targets.nan_to_num())
        assert np.array_equal(batch.task, expected.task)


def test_processes_can_hand_each_other_batches(model, dataset):
    batch = dataset.batch(np.arange(4))
    assert torch.equal(model(pickle.loads(pickle.dumps(batch))), model(batch))
