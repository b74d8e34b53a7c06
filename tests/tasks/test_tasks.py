import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from dgl_treestack.data import graph
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import PRESETS, Vocabulary
from dgl_treestack.data.wellformed import check
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression import language as languages
from dgl_treestack.model.model import Model
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.tasks import tasks
from dgl_treestack.tasks.verification import Verification


def make(*names):
    model = Model.build("tree_rnn", 5, PRESETS["canonical"], names or ("verification",))
    model.reset_parameters(torch.Generator().manual_seed(0))
    return model.double().eval()


def example(text, label=1):
    return Example(Equation.parse(text), label, text)


def everything(model, examples):
    dataset = model.prepare(examples)
    batch = dataset.batch(np.arange(len(examples)))
    with torch.no_grad():
        output = model(batch, keep=True)
    return dataset, batch, output


def test_verification_is_a_dot_product_and_a_bias():
    model = make()
    with torch.no_grad():
        model.heads["verification"].bias.fill_(0.3)
    _, batch, output = everything(model, [example("x + 1 = sin(y)"), example("x = y", 0)])
    h, table = batch.graph.ndata["h"], check(batch.graph, model.signature).children
    for root, s in zip(graph.roots(batch.graph).tolist(), output, strict=True):
        left, right = table[root, :2]
        assert s == pytest.approx(float(h[left] @ h[right]) + 0.3)
    softmax = torch.stack([torch.zeros(2), output], 1)
    expected = functional.cross_entropy(softmax, torch.tensor([1, 0]), reduction="none")
    assert torch.allclose(model.losses(output, batch), expected)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_verification_slot_by_slot(slots):
    head = Verification(8, compare="slots", slots=slots)
    head.reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():
        head.bias.fill_(0.3)
    h = torch.randn(3, 8)
    sides = torch.tensor([[1, 2]])
    scores = head(lambda nodes: h[nodes], torch.tensor([0]), sides)
    opinions, weights = [], []
    for left, right in zip(h[1].reshape(slots, -1), h[2].reshape(slots, -1), strict=True):
        compared = torch.cat([(left - right).abs(), left * right])
        opinion, weight = head.by_slot[2](torch.nn.functional.gelu(head.by_slot[0](compared)))
        opinions.append(opinion)
        weights.append(weight)
    shares = torch.stack(weights).exp() / torch.stack(weights).exp().sum()
    torch.testing.assert_close(scores, (4 * (shares * torch.stack(opinions)).sum() + 0.3).reshape(1))
    torch.testing.assert_close(head(lambda nodes: h[nodes], torch.tensor([0]), sides.flip(1)), scores)
    head.eval()
    scores = head(lambda nodes: h[nodes], torch.tensor([0]), sides)
    torch.testing.assert_close(scores, (4 * torch.stack(opinions).mean() + 0.3).reshape(1))


def test_settings_of_a_head():
    model = Model.build("tree_slots", 8, slots=2, head_settings={"verification": {"compare": "slots"}}, seed=0)
    assert model.heads["verification"].slots == 2  # those of the cell
    for head_settings, message in (
        ({"verification": {"compare": "angle"}}, "value for 'compare': 'angle'"),
        ({"verification": {"compares": "slots"}}, "Task 'verification': Unknown setting of the head 'compares'"),
        ({"verification": {"compare": "slots", "slots": 3}}, "the 3 slots of the head"),
        ({"regression": {}}, "Unknown task 'regression'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            Model.build("tree_slots", 8, slots=2, head_settings=head_settings)
    settings = {"classification": {"slots": 2}}
    with pytest.raises(ConfigurationError, match="Task 'classification': Unknown setting of the head 'slots'"):
        Model.build("tree_lstm_child_sum", 8, tasks="classification", signature="listops", head_settings=settings)
    with pytest.raises(ConfigurationError, match="Did you mean 'verification'"):
        make("verificaton")


def test_a_score_of_zero_is_wrong_for_both_labels():
    head, zero = tasks()["verification"](3), torch.zeros(2)
    assert head.correct(zero, torch.tensor([0.0, 1.0])).tolist() == [False, False]
    assert head.correct(torch.tensor([1.0, -1.0, 1.0]), torch.tensor([1.0, 0.0, 0.0])).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("text", "tree", "target", "side"),
    [
        ("sin(1.5) = 0.99", "sin(1.5)", 0.99, "left"),
        ("-1*0.3 = cos(x)", "cos(x)", -0.3, "right"),
        ("0.3*-1 = cos(1.0)", "cos(1.0)", -0.3, "right"),
        ("1.25 = -1*0.5", "1.25", -0.5, "left"),
    ],
)
def test_function_evaluation_takes_the_constant_side_as_target(text, tree, target, side):
    head = tasks()["function_evaluation"](4)
    item = head.prepare(example(text))
    assert item.tree == Expression.parse(tree)
    assert item.target == target
    record = head.record(example(text), item, 0.7)
    assert record == {"score": 0.7 if side == "left" else target, "predicted": 0.7, "target": target}


def test_function_evaluation_loss_and_tolerance():
    head = tasks()["function_evaluation"](4)
    output, target = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([1.0009, 1.0011, 0.0])
    assert head.correct(output, target).tolist() == [True, False, False]
    assert head.loss(output, target)[2] == 4
    assert head.correct(torch.tensor([0.27]), torch.tensor([float("inf")])).tolist() == [False]
    assert not head.accepts(example("sin(x) = 1" + "0" * 20 + ".5"))


def test_decoder_reads_the_root():
    model = make("function_evaluation")
    dataset, batch, output = everything(model, [example("sin(1.5) = 0.99")])
    head = model.heads["function_evaluation"]
    h = batch.graph.ndata["h"][0]
    expected = head.decoder2(torch.sigmoid(head.decoder1(h)))
    assert output[0] == pytest.approx(expected.item())
    assert dataset.targets.tolist() == [0.99]


def test_examples_go_to_the_first_task_that_accepts_them():
    model = make("function_evaluation", "verification")
    examples = [example("sin(1.5) = 0.99"), example("x + 1.5 = y + 1.5"), example("sin(1.5) = 0.5", 0), example("x = x", None)]
    dataset, _, output = everything(model, examples)
    assert dataset.task.tolist() == [0, 1, 1, 1]
    assert math.isnan(dataset.targets[3])
    rows = zip(dataset.examples, dataset.items, dataset.task, output.tolist(), strict=True)
    assert [model.record(*row)["task"] for row in rows] == ["function_evaluation", *["verification"] * 3]
    with pytest.raises(DataError, match="fits none of the model's tasks"):
        make("function_evaluation").prepare([example("x = x")])


@pytest.mark.parametrize("method", ["loss", "correct"])
def test_a_task_that_does_not_answer_for_each_output_is_named(method):
    class Wide(Verification):
        name = "wide"

        def forward(self, h, roots, sides):
            return super().forward(h, roots, sides).unsqueeze(1)

        def loss(self, output, target):
            return (output - target) ** 2

        def correct(self, output, target):
            return (output > 0) == (target > 0)

    model = make()
    model.heads["verification"] = Wide(5).double()
    _, batch, output = everything(model, [example("x = x"), example("x = y")])
    message = rf"Wide\.{method} returned the shape \(2, 2\) for outputs \(2, 1\) and targets \(2,\)"
    with pytest.raises(RuntimeError, match=message):
        (model.losses if method == "loss" else model.correct)(output, batch)


def test_classes_where_numbers_are_needed():
    listops, words = languages.find("listops"), Vocabulary.of_words("12")
    numeric = replace(listops, classes=(), numeric=True)
    model = Model.build("tree_lstm", 5, words, ("regression",), numeric, form="child_sum")
    message = "file:3: The label 'good' is the name of a class, and the task 'regression' needs numbers"
    with pytest.raises(DataError, match=message):
        model.heads["regression"].prepare(Example(Expression.parse("[MAX 1 2 ]", listops), "good", source="file:3"))


def test_a_language_by_name():
    by_name, by_object = (
        Model.build("tree_lstm", 4, "canonical", "classification", language, form="child_sum", seed=0).signature
        for language in ("listops", languages.find("listops"))
    )
    assert by_name == by_object
    tree = Expression.parse("[MAX 1 2 ]", by_name)
    data = TreeDataset([Example(tree, "2")], vocabulary=Vocabulary.of_words("12"), tasks="classification", signature="listops")
    assert data[0][1].dtype == torch.int64 and data[0][1] == 2


def test_batches_of_a_small_data_set_are_made_once(monkeypatch):
    dataset = make().prepare([example("x + 1 = sin(y)"), example("x = y", 0), example("y = y")])
    first = list(dataset.batches(2))
    assert [len(batch.roots) for batch in first] == [2, 1]
    assert all(batch is again for batch, again in zip(first, dataset.batches(2), strict=True))
    monkeypatch.setattr("dgl_treestack.model.dataset.MOST_KEPT", 0)
    fresh = make().prepare([example("x + 1 = sin(y)")])
    assert next(fresh.batches(2)) is not next(fresh.batches(2))
