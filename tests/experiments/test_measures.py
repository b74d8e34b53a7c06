"""What is measured of states: stack rows in use, representations and values, against states taken one equation at a time."""

import collections
import functools

import numpy as np
import pytest
import torch
from each_case import assert_raises
from small_runs import small_config, write_data
from tables import result_of, table_of

from dgl_treestack import Expression, Model, Operator, Run, Signature, Vocabulary, plots, propagate
from dgl_treestack.data import formats
from dgl_treestack.data.graph import from_expressions
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.experiments.extras import representations, stack, values
from dgl_treestack.results import metrics
from dgl_treestack.runs import evaluation, pretrained
from dgl_treestack.runs.configuration import ModelConfig, RunConfig
from dgl_treestack.runs.run import build_model
from dgl_treestack.truth.subtrees import DEFINED, targets_of

SMU = pretrained.FOLDER / "tree_smu"
POINTS = 4


def states(model, tree):
    batch = from_expressions([tree], model.vocabulary)
    with torch.no_grad():
        propagate.propagate(batch, model.cell, engine="topo")
    return batch.ndata


def test_stack_rows_in_use(tmp_path):
    model = Run.open(SMU).load_model()
    examples = list(formats.read(write_data(tmp_path / "a.jsonl", 30, 3)))
    # a threshold that some rows pass and others do not
    rows = stack.make_usage(model, model.prepare(examples), threshold=0.5).rows(named=True)
    assert len({row["usage"] for row in rows}) > 5
    size = model.cell.fields["stack"][0]
    for example, row in zip(examples, rows, strict=True):
        tree = example.equation
        used = (states(model, tree)["stack"].unflatten(1, (size, -1)).norm(dim=-1) > 0.5).sum(1).tolist()
        inner = [i for i in range(1, tree.size) if tree.texts[i] is None]
        assert row["usage"] == pytest.approx(sum(used[i] for i in inner) / max(len(inner), 1))
        assert row["full"] == pytest.approx(sum(min(tree.heights[i], size) for i in inner) / max(len(inner), 1))
        assert row["top"] == sum(used[i] for i in tree.children(0)) / 2
        assert (row["id"], row["label"]) == (example.id, example.label)
    plain = build_model(small_config(tmp_path, model={"name": "tree_lstm", "hidden": 4}).model)
    for make_records in (stack.make_usage, stack.make_ablation):
        assert_raises(ConfigurationError, "no stack", make_records, plain, plain.prepare(examples))
    phrases = Signature("phrases", (Operator("Phrase", 2),), words=True, classes=("good", "bad"))
    classifier = Model.build("tree_smu", 4, Vocabulary.of_words("abc"), "node_classification", phrases, seed=0)
    assert_raises(ConfigurationError, "task 'node_classification' lacks", stack.make_usage, classifier, model.prepare(examples))
    assert_raises(ConfigurationError, "classifies nodes", stack.make_ablation, classifier, model.prepare(examples))


def test_of_several_stacks_the_mean_is_in_use_and_all_are_limited(tmp_path):
    model = Model.build("tree_lstm_two_stacks", 4, seed=0, stack_size=3)
    examples = list(formats.read(write_data(tmp_path / "a.jsonl", 10, 3)))
    rows = stack.make_usage(model, model.prepare(examples), threshold=0.45).rows(named=True)
    for example, row in zip(examples, rows, strict=True):
        data = states(model, example.equation)
        used = np.mean([(data[name].abs() > 0.45).sum(1).numpy() for name in ("c_stack", "h_stack")], axis=0)
        assert row["top"] == pytest.approx(used[list(example.equation.children(0))].mean())
    columns = stack.make_ablation(model, model.prepare(examples)).columns
    assert [name for name in columns if name.startswith(("rows", "without"))] == [
        *(f"rows {count}" for count in range(4)), "without push", "without pop"
    ]  # fmt: skip


def test_answers_with_less_of_a_stack(tmp_path):
    """Each answer is that of a model whose cell was changed by hand: rows emptied after the update, or a gate at zero."""
    run = Run.open(SMU)
    examples = list(formats.read(write_data(tmp_path / "a.jsonl", 200, 3)))

    def right(change=None, given=None):
        model = run.load_model()
        if change:
            model.cell.write = functools.partial(change, given, model.cell, model.cell.write)
        return evaluation.answers(model, model.prepare(examples))["correct"].cast(int).to_list()

    def keeping(rows, cell, write, *arguments):
        memory = write(*arguments)["stack"].clone()
        memory[:, rows:] = 0
        return {"stack": memory}

    def without(action, cell, write, f, children, u, actions):
        actions = [gate * (name != action) for name, gate in zip(cell.actions, actions, strict=True)]
        return write(f, children, u, [gate / sum(actions) for gate in actions])

    model = run.load_model()
    table = stack.make_ablation(model, model.prepare(examples))
    size = model.cell.fields["stack"][0]
    expected = {f"rows {kept}": right(keeping, kept) for kept in range(size)} | {f"rows {size}": right()}
    expected |= {f"without {action}": right(without, action) for action in ("push", "pop", "noop")}
    assert {name: table[name].to_list() for name in expected} == expected
    assert len({tuple(answers) for answers in expected.values()}) > 3, "they differ"
    assert right() == expected[f"rows {size}"], "the model is as before"


def test_representations_are_the_roots_states(tmp_path):
    model, texts = Run.open(SMU).load_model(), ["x + x", "2*x", "sin(x)*cos(x) + 1", "x", "sin(sin(sin(sin(x))))"]
    trees = [Expression.parse(text) for text in texts]
    examples = [formats.Example(tree, None, f"e{i}", value_class=f"c{i // 2}") for i, tree in enumerate(trees)]
    formats.write(tmp_path / "e.jsonl", examples)
    rows = representations.make_records(model, tmp_path / "e.jsonl").rows(named=True)
    expected = [("x + x", "c0", 1), ("2*x", "c0", 1), (str(trees[2]), "c1", 3)]  # the others are of depths 0 and 4
    assert [(row["text"], row["class"], row["depth"]) for row in rows] == expected
    for row in rows:
        np.testing.assert_allclose(row["h"], states(model, Expression.parse(row["text"]))["h"][0], atol=2e-6)
    formats.write(tmp_path / "f.jsonl", [formats.Example(trees[0], None, "e0")])
    assert_raises(DataError, "value class", representations.make_records, model, tmp_path / "f.jsonl")


@pytest.fixture(scope="module")
def with_values():
    return Model.build("tree_slots", 8, slots=2, signals={"value": 1.0, "points": POINTS}, seed=0).eval()


@pytest.fixture(scope="module")
def dataset(with_values, tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "some.jsonl"
    return with_values.prepare(list(formats.read(write_data(path, 120))))


def test_every_record_is_a_subtree_with_its_value_and_the_models_read_out(with_values, dataset, monkeypatch):
    monkeypatch.setattr(values, "BATCH", 7)
    rows = values.make_records(with_values, dataset).rows(named=True)
    targets = targets_of(dataset.forest, POINTS)
    with torch.no_grad():
        whole = dataset.batch(np.arange(len(dataset)))
        states_of = with_values.node_states(whole)(torch.arange(len(whole.trees.subtree)))
        readouts = with_values.signals.predict_values(states_of).numpy()
    expected = collections.defaultdict(list)
    for node, subtree in enumerate(dataset.forest.subtree):
        expected[tuple(readouts[node, :, :2].round(4).ravel())].append((int(dataset.forest.height[node]), int(subtree)))
    for row in rows:
        nodes = expected[tuple(np.array(row["readouts"], np.float32).round(4).ravel())]
        assert row["depth"] in {height for height, _ in nodes}
        (subtree,) = {subtree for _, subtree in nodes}
        for point in range(POINTS):
            known = targets.status[subtree, point] == DEFINED
            assert row["values"][point] == (targets.value[subtree, point].tolist() if known else None)
    assert len(rows) == len({int(s) for s in dataset.forest.subtree if (targets.status[s] == DEFINED).any()})


def test_at_most_so_many_of_a_height_and_the_figure(with_values, dataset, monkeypatch, tmp_path):
    monkeypatch.setattr(values, "MOST", 3)
    counts = collections.Counter(values.make_records(with_values, dataset)["depth"].to_list())
    assert max(counts.values()) == 3 and set(counts) == {0, 1, 2, 3}
    assert_raises(ConfigurationError, "without signals", values.make_records, Model.build("tree_rnn", 8, seed=0), dataset)
    monkeypatch.undo()
    monkeypatch.setattr(metrics, "FEWEST_SUBTREES", 5)
    table = values.make_records(with_values, dataset)
    exact = table_of([{**row, "readouts": [pair or [0.0, 0.0] for pair in row["values"]]} for row in table.rows(named=True)])
    config = RunConfig("one", ModelConfig("tree_slots"))
    runs = {label: [result_of(config, values=readouts)] for label, readouts in (("drawn", table), ("exact", exact))}
    assert metrics.readouts_by_height(exact)[2] == pytest.approx((0.0, 1.0))
    assert metrics.readouts_by_height(table)[2][0] > 0.05
    written = plots.draw("values", runs, tmp_path / "values")
    assert [path.suffix for path in written] == [".svg", ".png"] and "drawn" in written[0].read_text()
