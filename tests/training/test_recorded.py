"""Training with recorded steps, as on a GPU; a tape of operations stands for the CUDA graph."""

import math
import random
from pathlib import Path

import numpy as np
import pytest
import tape
import torch
from each_case import cases
from small_runs import assert_same_when_stopped, small_config, small_run, write_data
from trees import random_equation

from dgl_treestack import Equation, Example, Expression, Model, Operator, Run, Signature, Vocabulary
from dgl_treestack.data import formats
from dgl_treestack.errors import DivergenceError
from dgl_treestack.model import recorded
from dgl_treestack.propagate import draw_key
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.runs.weights import read_weights
from dgl_treestack.tasks.verification import Verification
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.training.recorded import RecordedStep
from dgl_treestack.training.start import prepare
from dgl_treestack.training.trees import TreeObjective
from dgl_treestack.truth.subtrees import targets_of

TREE = {"name": "tree_smu", "hidden": 4, "dropout": 0.2, "settings": {"stack_size": 2}}


@pytest.fixture
def recording(monkeypatch):
    monkeypatch.setattr(recorded, "recorder", lambda device: tape.record)


@cases(
    {"optimizer": {"learning_rate": 0.01, "gradients": "zeros", "clip": 0.5, "weight_decay": 0.01}},
    {"model": {**TREE, "masks": "subtree"}, "schedule": {"epochs": 3, "warmup": 1, "decay": "cosine"}},
)
def test_recorded_steps_train_as_others_do(tmp_path, recording, noted, changes):
    """Some batches of a run are recorded, the last one of every epoch is not full. More models and settings: next test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "recorder", lambda device: None)
        plain = small_run(tmp_path / "plain", **changes)
    calls = noted(RecordedStep, "__call__")
    run = small_run(tmp_path / "recorded", **changes)
    assert len(calls) >= 12  # of 3 epochs of 6 or 7 full batches
    for wanted, actual in zip(plain.read_metrics(), run.read_metrics(), strict=True):
        assert actual == pytest.approx(wanted, rel=1e-3)
    (before, _), (after, _) = read_weights(plain.last), read_weights(run.last)
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=1e-2, atol=1e-3)


PHRASES = Signature("phrases", (Operator("join", 2),), words=True, classes=("bad", "good"))


def equations(folder, count=120):
    return list(formats.read_examples([write_data(folder / "train.jsonl", count)]))


def without_numbers(folder, count=120, deepest=6):
    """Equations that an encoder reads, of different lengths."""
    rng, leaves = random.Random(0), [("Symbol", "x"), ("Symbol", "y"), ("Pi", "pi"), ("Integer", "2")]
    trees = [random_equation(rng, rng.randrange(1, deepest), unary=("sin", "exp"), leaves=leaves) for _ in range(count)]
    return [Example(tree, i % 2, str(i)) for i, tree in enumerate(trees)]


def of_two_tasks(folder, count=120):
    """Equations to verify, and some that say which number an expression equals; in the first batches there are only the former.

    The others have an operator of their own.
    """
    numbers = [Expression.leaf("Number", "1.29"), Expression.node("cosh", Expression.leaf("Symbol", "y"))]
    examples = without_numbers(folder, count)
    for i in range(count // 3, count, 2):
        left = Expression.node("Mul", examples[i].equation.left, numbers[1])
        examples[i] = Example(Equation.of(left, numbers[0]), 1, str(i))
    return examples


def phrases(folder, count=120):
    """Trees with labels at some nodes."""
    rng = random.Random(0)

    def tree(depth):
        if depth == 0:
            return Expression.leaf("Word", rng.choice("abc"), PHRASES)
        return Expression.node("join", tree(depth - 1), tree(rng.randrange(depth)))

    trees = [tree(rng.randrange(1, 5)) for _ in range(count)]
    labels = [tuple(rng.choice(("bad", "good", None)) for _ in range(tree.size - 1)) for tree in trees]
    return [Example(tree, "good", str(i), labels=("good", *of)) for i, (tree, of) in enumerate(zip(trees, labels, strict=True))]


OF_PHRASES = {"tasks": "node_classification", "signature": PHRASES, "vocabulary": Vocabulary.of_words("abc")}
VALUES = {"value": 0.5, "points": 3}
CASES = {
    "dropout": ("tree_smu", {"dropout": 0.2}, {"clip": 0.5}, equations),
    "masks": ("tree_lstm", {"dropout": 0.2, "masks": "subtree"}, {"gradients": "zeros", "weight_decay": 0.01}, equations),
    "shared": ("tree_lstm_child_sum", {"share": "all"}, {}, equations),
    "nodes": ("tree_lstm", OF_PHRASES, {}, phrases),
    "values": ("tree_lstm", {"signals": VALUES, "dropout": 0.1}, {}, without_numbers),
    "values and classes": ("tree_smu", {"signals": {**VALUES, "equivalence": 0.3, "rows": 20}}, {}, without_numbers),
    "muon": ("tree_smu", {"hidden": 8, "dropout": 0.1}, {"method": "muon", "weight_decay": 0.1}, equations),
    "muon, zeros": ("tree_lstm", {"hidden": 8}, {"method": "muon", "weight_decay": 0.1, "gradients": "zeros"}, equations),
    "two tasks": ("tree_lstm", {"tasks": ("function_evaluation", "verification")}, {}, of_two_tasks),
    "two tasks, zeros": ("tree_rnn", {"tasks": ("function_evaluation", "verification")}, {"gradients": "zeros"}, of_two_tasks),
    **{name: (name, {}, {}, without_numbers) for name in ("rnn", "lstm", "stack_rnn")},
    "wide lstm": ("lstm", {"hidden": 100}, {"method": "muon"}, without_numbers),
    "transformer": ("transformer", {"hidden": 8, "feed_forward": 16}, {"clip": 0.1}, without_numbers),
    "looped": ("looped_transformer", {"hidden": 8, "feed_forward": 16, "loops": 3}, {}, without_numbers),
    "tree_transformer": ("tree_transformer", {"hidden": 32, "steps": 4, "feed_forward": 16}, {}, without_numbers),
}


def case_of(folder, case, count=1):
    """Equal models in double precision, the configuration of their optimizer, and their data."""
    name, settings, optimizer, make = CASES[case]
    models = [Model.build(name, seed=0, **{"hidden": 5, **settings}).double() for _ in range(count)]
    return models, OptimizerConfig(**optimizer), models[0].prepare(make(folder)).with_targets()


@pytest.mark.parametrize("case", CASES)
def test_recorded_steps_have_the_numbers_of_others_in_double_precision(tmp_path, case):
    """Some in-between are not recorded, as of batches that do not fit."""
    models, config, dataset = case_of(tmp_path, case, 2)
    plain, other = (RowOptimizer(model.train(), config) for model in models)
    source, targets = np.random.default_rng(0), targets_of(dataset.forest, 3) if models[0].signals else None
    batches = [source.permutation(len(dataset))[:16] for _ in range(12)]
    if "two tasks" in case:
        batches = [source.permutation(32)[:16] for _ in range(2)] + batches
    given = models[1], other, config, dataset, batches[:10], lambda losses, _: losses.mean(), []
    step, plans = RecordedStep(*given, record=tape.record, targets=targets), set()

    def take(model, optimizer, i, update):
        batch = dataset.batch(batches[i])
        h = model.node_states(batch, generator=torch.Generator().manual_seed(i))
        losses = model.losses(model.outputs(h, batch), batch)
        loss = losses.mean()
        if targets is not None:
            loss = loss + model.signals(h, batch.trees, targets, np.random.default_rng(i))
        optimizer.zero()
        loss.backward()
        optimizer.collect()
        gradients = [row.grad for row in optimizer.parameters if row.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        for gradient in gradients if 0 < config.clip < norm else ():
            gradient.mul_(config.clip / norm)
        update(1e-3)
        return float(losses.detach().sum()), len(losses)

    for i, positions in enumerate(batches):
        prepared = step.indices(positions, draw_key(torch.Generator().manual_seed(i)), np.random.default_rng(i))
        assert prepared is not None or i >= 10
        total, count = take(models[0], plain, i, plain.step)
        if prepared is None or i == 5:
            take(models[1], other, i, step.optimizer.update_rows)
            continue
        plans.add(prepared.plan)
        step(prepared, 1e-3)
        loss, outputs, _, steps, fault = step.read()
        assert (outputs, steps, fault) == (count, 1, 0) and loss == pytest.approx(total, rel=1e-10)
    assert len(plans) > 1 or case in list(CASES)[:10]
    actual = other.tensors()
    assert actual.keys() == plain.tensors().keys()
    for key, wanted in plain.tensors().items():
        torch.testing.assert_close(actual[key], wanted, rtol=1e-9, atol=1e-12, msg=key)
    for wanted, parameter in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(parameter, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["dropout", "shared", "nodes", "two tasks", *list(CASES)[10:]])
def test_recorded_evaluation_has_the_numbers_of_other_evaluation(tmp_path, case, recording, monkeypatch, noted):
    (model,), _, dataset = case_of(tmp_path, case)
    monkeypatch.setattr(evaluation, "BATCH", 16)
    monkeypatch.setattr(evaluation, "LEAST", 16)
    replays = noted(recorded.Recorded, "replay")
    again = evaluation.recorded(model, dataset, "levels")
    plain = evaluation.score(model, dataset)
    for _ in range(2):
        score = evaluation.score(model, dataset, recorded=again)
        assert score.loss == pytest.approx(plain.loss, rel=1e-12) and score.accuracy == plain.accuracy
    recorded_answers = evaluation.answers(model, dataset)
    assert len(replays) >= 3 * (len(again.chosen) - 1)
    monkeypatch.setattr(recorded, "recorder", lambda device: None)
    answers = evaluation.answers(model, dataset)
    for name in answers.columns:
        actual, wanted = recorded_answers[name].to_list(), answers[name].to_list()
        if name == "scores" or any(isinstance(value, float) for value in wanted):
            np.testing.assert_allclose(np.array(actual, dtype=float), np.array(wanted, dtype=float), rtol=1e-9)
        else:
            assert actual == wanted


@cases(
    ([(1,), (5, 3), (8, 8)], {}),
    ([(5, 3)], {"optimizer": {"method": "muon", "gradients": "zeros"}, "model": {**TREE, "hidden": 8}, "signals": VALUES}),
    ([(5, 3)], {"model": {"name": "lstm", "hidden": 4, "dropout": 0.2}}),
    ([(7,)], {"model": {"name": "transformer", "hidden": 4, "dropout": 0.2, "settings": {"feed_forward": 8}}}),
)
def test_a_run_of_recorded_steps_that_is_stopped_ends_like_one_that_was_not(tmp_path, recording, noted, stops, changes):
    config, replays = small_config(tmp_path, **changes), noted(recorded.Recorded, "replay", lambda _, step, *__: type(step))
    for path in config.data.files:  # 1.29 has no token
        Path(path).write_text(Path(path).read_text().replace("1.29", "2"))
    assert_same_when_stopped(config, TreeObjective, stops, tmp_path)
    assert {*replays} == {RecordedStep, recorded.RecordedResults} and replays.count(RecordedStep) > 20


def test_a_recorded_step_that_diverges_changes_nothing_and_names_its_batch(tmp_path, recording):
    training = prepare(Run(tmp_path / "small-0"), small_config(tmp_path), 0)
    objective = training.objective
    with torch.no_grad():
        objective.model.cell.leaves.table.fill_(math.inf)
    with pytest.raises(DivergenceError, match=r"not finite \d+ steps before the last one\. Batch: train\d+"):
        training.train()


@pytest.mark.parametrize("changes", [{"optimizer": {"method": "AdamW"}}, {"engine": "topo"}])
def test_other_runs_are_not_recorded(tmp_path, recording, changes):
    assert prepare(Run(tmp_path / "small-0"), small_config(tmp_path, **changes), 0).objective.recorded is None


def test_sequences_that_would_be_padding_are_not_recorded(tmp_path):
    model, long = Model.build("lstm", 4, seed=0), Example(Equation.parse("+".join("x" * 400) + " = x"), 1, "long")
    dataset = model.prepare([*without_numbers(tmp_path, 40, 3), long])
    with pytest.raises(RuntimeError, match="most of the work would be padding"):
        recorded.RecordedResults(model, dataset, [np.arange(41)], scored=True, record=tape.record)
    step = recorded.RecordedResults(model, dataset, [np.arange(40)], scored=True, record=tape.record)
    assert step.indices(np.arange(41)) is None and step.indices(np.arange(30)) is not None


def test_a_task_of_ones_own_with_an_encoder_is_not_recorded(tmp_path, monkeypatch):
    model = Model.build("lstm", 4, seed=0)
    dataset = model.prepare(without_numbers(tmp_path, 4))
    monkeypatch.setattr(Verification, "__module__", "mine")
    with pytest.raises(RuntimeError, match="A task of your own"):
        recorded.RecordedResults(model, dataset, [np.arange(4)], scored=True, record=tape.record)


def test_what_cannot_be_recorded_trains_as_without_and_says_why_once(tmp_path, monkeypatch, caplog):
    changes = {"optimizer": {"method": "muon", "gradients": "zeros"}, "model": {**TREE, "hidden": 8}}
    plain = small_run(tmp_path / "plain", **changes)

    def fault(step):
        step()
        raise RuntimeError("operation not permitted when stream is capturing\nsecond line")

    monkeypatch.setattr(recorded, "recorder", lambda device: fault)
    run = small_run(tmp_path / "other", **changes)
    assert run.best.read_bytes() == plain.best.read_bytes() and run.last.read_bytes() == plain.last.read_bytes()
    message = "without a CUDA graph, which is slower: operation not permitted when stream is capturing"
    assert [line for line in caplog.messages if "CUDA" in line] == [f"small-0: training {message}", f"Evaluation {message}"]
