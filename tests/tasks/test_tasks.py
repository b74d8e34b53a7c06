"""Tasks: sides of equations, classes, labels at nodes, class weights, numbers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from each_case import assert_raises, cases
from small_runs import film_config
from torch.nn import functional

from dgl_treestack import Equation, Example, Expression, Model, TreeDataset, Vocabulary, plain_data
from dgl_treestack.data import formats, graph
from dgl_treestack.data.formats.example import read_tree
from dgl_treestack.data.records import accuracy
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.data.wellformed import check
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.expression import language as languages
from dgl_treestack.expression.language import from_dict
from dgl_treestack.model.dataset import measure
from dgl_treestack.results.metrics import classification
from dgl_treestack.results.run_result import read
from dgl_treestack.runs import evaluation
from dgl_treestack.tasks import tasks
from dgl_treestack.tasks.verification import Verification
from dgl_treestack.training.start import start


def make(*names):
    return Model.build("tree_rnn", 5, PRESETS["canonical"], names or ("verification",), seed=0).double().eval()


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
    model.heads["verification"].bias.data.fill_(0.3)
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
    head.bias.data.fill_(0.3)
    h, sides = torch.randn(3, 8), torch.tensor([[1, 2]])
    read = h.__getitem__, torch.tensor([0])
    scores = head(*read, sides)
    opinions, weights = [], []
    for left, right in zip(h[1].reshape(slots, -1), h[2].reshape(slots, -1), strict=True):
        compared = torch.cat([(left - right).abs(), left * right])
        opinion, weight = head.by_slot[2](torch.nn.functional.gelu(head.by_slot[0](compared)))
        opinions.append(opinion)
        weights.append(weight)
    shares = torch.stack(weights).exp() / torch.stack(weights).exp().sum()
    torch.testing.assert_close(scores, (4 * (shares * torch.stack(opinions)).sum() + 0.3).reshape(1))
    torch.testing.assert_close(head(*read, sides.flip(1)), scores)
    head.eval()
    torch.testing.assert_close(head(*read, sides), (4 * torch.stack(opinions).mean() + 0.3).reshape(1))


def test_settings_of_a_head():
    model = Model.build("tree_slots", 8, slots=2, head_settings={"verification": {"compare": "slots"}}, seed=0)
    assert model.heads["verification"].slots == 2  # those of the cell
    for head_settings, message in (
        ({"verification": {"compare": "angle"}}, "value for 'compare': 'angle'"),
        ({"verification": {"compares": "slots"}}, "Task 'verification': Unknown setting of the head 'compares'"),
        ({"verification": {"compare": "slots", "slots": 3}}, "the 3 slots of the head"),
        ({"regression": {}}, "Unknown task 'regression'"),
    ):
        assert_raises(ConfigurationError, message, Model.build, "tree_slots", 8, slots=2, head_settings=head_settings)
    settings = {"classification": {"slots": 2}}
    with pytest.raises(ConfigurationError, match="Task 'classification': Unknown setting of the head 'slots'"):
        Model.build("tree_lstm_child_sum", 8, tasks="classification", signature="listops", head_settings=settings)
    assert_raises(ConfigurationError, "Did you mean 'verification'", make, "verificaton")


def test_when_an_output_is_correct():
    for task, outputs, targets, correct in (
        ("verification", [0.0, 0.0, 1.0, -1.0, 1.0], [0.0, 1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1, 0]),  # 0 is wrong for both labels
        ("function_evaluation", [1.0, 1.0, 2.0, 0.27], [1.0009, 1.0011, 0.0, math.inf], [1, 0, 0, 0]),
    ):
        assert tasks()[task](4).correct(torch.tensor(outputs), torch.tensor(targets)).tolist() == correct, task


@cases(
    ("sin(1.5) = 0.99", "sin(1.5)", 0.99, "left"),
    ("-1*0.3 = cos(x)", "cos(x)", -0.3, "right"),
    ("0.3*-1 = cos(1.0)", "cos(1.0)", -0.3, "right"),
    ("1.25 = -1*0.5", "1.25", -0.5, "left"),
)
def test_function_evaluation_takes_the_constant_side_as_target(text, tree, target, side):
    head = tasks()["function_evaluation"](4)
    item = head.prepare(example(text))
    assert item.tree == Expression.parse(tree)
    assert item.target == target
    record = head.record(example(text), item, 0.7)
    assert record == {"score": 0.7 if side == "left" else target, "predicted": 0.7, "target": target}


def test_examples_go_to_the_first_task_that_accepts_them_and_its_decoder_reads_the_root():
    model = make("function_evaluation", "verification")
    examples = [example("sin(1.5) = 0.99"), example("x + 1.5 = y + 1.5"), example("sin(1.5) = 0.5", 0), example("x = x", None)]
    dataset, _, output = everything(model, examples)
    assert dataset.task.tolist() == [0, 1, 1, 1]
    assert math.isnan(dataset.targets[3])
    rows = zip(dataset.examples, dataset.items, dataset.task, output.tolist(), strict=True)
    assert [model.record(*row)["task"] for row in rows] == ["function_evaluation", *["verification"] * 3]
    with pytest.raises(DataError, match="fits none of the model's tasks"):
        make("function_evaluation").prepare([example("x = x")])
    model = make("function_evaluation")
    dataset, batch, output = everything(model, [example("sin(1.5) = 0.99")])
    head = model.heads["function_evaluation"]
    h = batch.graph.ndata["h"][0]
    expected = head.decoder2(torch.sigmoid(head.decoder1(h)))
    assert output[0] == pytest.approx(expected.item())
    assert dataset.targets.tolist() == [0.99]
    assert head.loss(torch.tensor([2.0]), torch.tensor([0.0])) == 4
    assert not head.accepts(example("sin(x) = 1" + "0" * 20 + ".5"))


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
    assert_raises(RuntimeError, message, model.losses if method == "loss" else model.correct, output, batch)


def test_a_language_by_name():
    language, words = languages.find("listops"), Vocabulary.of_words("12")
    model = Model.build("tree_lstm", 4, words, "classification", "listops", form="child_sum", seed=0)
    tree = Expression.parse("[MAX 1 2 ]", language)
    assert model.signature == language and model.score([tree, tree]).shape == (2, 10)
    data = TreeDataset([Example(tree, "2")], vocabulary=words, tasks="classification", signature="listops")
    assert data[0][1].dtype == torch.int64 and data[0][1] == 2


def test_batches_of_a_small_data_set_are_made_once(monkeypatch):
    dataset = make().prepare([example("x + 1 = sin(y)"), example("x = y", 0), example("y = y")])
    first = list(dataset.batches(2))
    assert [len(batch.roots) for batch in first] == [2, 1]
    assert all(batch is again for batch, again in zip(first, dataset.batches(2), strict=True))
    monkeypatch.setattr("dgl_treestack.model.dataset.MOST_KEPT", 0)
    fresh = make().prepare([example("x + 1 = sin(y)")])
    assert next(fresh.batches(2)) is not next(fresh.batches(2))


PHRASES = from_dict({"name": "phrases", "notation": "labelled", "classes": ["bad", "so", "good"], "operators": {"compose": 2}})
SUMS = from_dict({"name": "sums", "classes": "numbers", "operators": {"plus": 2}})


def labelled(text, id="t"):
    tree, labels = read_tree(text, PHRASES)
    return Example(tree, labels[0] if labels else None, id, labels=labels)


def model_of(task, language=PHRASES, **more):
    return Model.build("tree_lstm", 5, Vocabulary.of_words("abc"), task, language, seed=1, **more).double().eval()


@pytest.mark.parametrize("engine", ["topo", "levels"])
def test_every_node_has_an_output(engine):
    model = model_of("node_classification")
    examples = [labelled("(good (so a) (- (- b) (bad c)))"), labelled("(- (- a) (- b))"), labelled("(bad c)")]
    dataset = model.prepare(examples)
    assert dataset.offsets.tolist() == [0, 5, 8, 9] and dataset.nodes.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0]
    known = dataset.with_targets()
    assert [example.equation.size for example in known.examples] == [5, 1] and known.nodes.tolist() == [0, 1, 4, 0]
    assert known.targets.tolist() == [2, 1, 0, 0] and known.with_targets() is known
    training, whole = known.batch(np.array([1, 0])), dataset.batch(np.array([2, 0]))
    torch.testing.assert_close(model(training, engine), model(whole, engine)[whole.targets.isfinite()])
    for chosen in ([0, 1, 2], [2, 0, 0]):
        batch = dataset.batch(np.array(chosen))
        output, h = model(batch, engine), model.states(batch.graph)
        head, row, first = model.heads["node_classification"], 0, 0
        losses, correct = model.losses(output, batch), model.correct(output, batch)
        for i in chosen:
            for node, target in dataset.items[i].target.items():
                logits = head.decoder.weight @ h[first + node] + head.decoder.bias
                torch.testing.assert_close(output[row], logits)
                if np.isnan(target):
                    assert losses[row].isnan() and correct[row] == 0
                else:
                    torch.testing.assert_close(losses[row], -logits.log_softmax(0)[int(target)])
                    assert correct[row] == (int(logits.argmax()) == target)
                row += 1
            first += examples[i].equation.size
        assert row == len(output)


def test_records_of_nodes():
    model = model_of("node_classification")
    examples = [labelled("(good (so a) (- (- b) (bad c)))", "x"), labelled("(- (- a) (- b))", "y")]
    table = evaluation.answers(model, model.prepare(examples), group_by="size")
    rows = table.rows(named=True)
    assert [row["id"] for row in rows] == ["x/0", "x/1", "x/2", "x/3", "x/4", "y/0", "y/1", "y/2"]
    assert [row["depth"] for row in rows] == [2, 0, 1, 0, 0, 1, 0, 0]
    assert [row["depth of the tree"] for row in rows] == [2] * 5 + [1] * 3
    assert [row["size"] for row in rows] == [5, 1, 3, 1, 1, 3, 1, 1]
    assert [row["label"] for row in rows] == ["good", "so", None, None, "bad", None, None, None]
    for row in rows:
        assert row["predicted"] == PHRASES.classes[int(np.argmax(row["scores"]))]
        assert row["correct"] == (row["predicted"] == row["label"] if row["label"] else None)
    whole = [row for row in rows if row["node"] == 0]
    assert classification(table)["accuracy at roots"] == 100 * whole[0]["correct"]


def test_class_weights_scale_the_loss():
    examples = [labelled("(good a)"), labelled("(bad b)"), labelled("(so c)")]
    plain, weighted = model_of("classification"), model_of("classification", class_weights={"good": 3.0, "so": 0})
    assert plain.state_dict().keys() == weighted.state_dict().keys()
    batch = plain.prepare(examples).batch(np.arange(3))
    losses = plain.losses(plain(batch), batch)
    torch.testing.assert_close(weighted.losses(weighted(batch), batch), losses * torch.tensor([3.0, 1.0, 0.0]))
    for task, language, weights, message in (
        ("classification", PHRASES, {"god": 1.0}, "Unknown class 'god'. Did you mean 'good'"),
        ("classification", PHRASES, {"good": -1.0}, "must be a number from 0 on"),
        ("classification", PHRASES, {"good": "x"}, "must be a number from 0 on"),
        ("regression", SUMS, {"good": 1.0}, "has no classes that 'model.class_weights' could weigh"),
    ):
        assert_raises(ConfigurationError, message, model_of, task, language, class_weights=weights)


def test_regression():
    model = model_of("regression", SUMS)
    examples = [Example(Expression.parse(text, SUMS), label) for text, label in (("(plus a b)", 1.5), ("c", None))]
    batch = model.prepare(examples).batch(np.arange(2))
    output = model(batch)
    head, h = model.heads["regression"], model.states(batch.graph)
    torch.testing.assert_close(output, torch.stack([(head.decoder.weight @ h[i] + head.decoder.bias)[0] for i in (0, 3)]))
    losses = model.losses(output, batch)
    assert losses[0] == (output[0] - 1.5) ** 2 and losses[1].isnan()
    near = torch.tensor([1.9, 0.0], dtype=torch.float64)
    assert model.correct(near, batch).tolist() == [1, 0] and model.correct(near + 0.2, batch).tolist() == [0, 0]
    message = "file:3: The label 'good' is the name of a class, and the task 'regression' needs numbers"
    assert_raises(DataError, message, head.prepare, Example(Expression.parse("c", SUMS), "good", source="file:3"))
    assert_raises(ConfigurationError, "The labels of the language 'phrases' are no numbers", model_of, "regression", PHRASES)
    assert_raises(ConfigurationError, "has no classes", model_of, "classification", SUMS)


def test_a_regression_run_keeps_the_epoch_of_the_smallest_loss(tmp_path, monkeypatch, treestack):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("sums.toml").write_text('classes = "numbers"\n[operators]\nplus = 2\n')
    lines = [f"{a + b}\t(plus {a} {b})" for a in range(4) for b in range(4)]
    tmp_path.joinpath("sums.tsv").write_text("\n".join(lines) + "\n")
    files = {part: ["sums.tsv"] for part in ("train", "validation", "test")}
    changes = ["model.name=tree_lstm", "model.hidden=8", "optimizer.learning_rate=0.05", "schedule.epochs=12"]
    config = plain_data.override(film_config("regression", language="sums.toml", **files), changes)
    run = start(config, 0, Path("runs"), quiet=True)
    printed = treestack("evaluate", run.folder, "sums.tsv")
    assert "R2" in printed and "mean absolute error 0." in printed
    best = min(run.read_metrics(), key=lambda row: row["validation_loss"])
    assert run.done.read_text().strip() == f"best epoch {best['epoch']}"
    result = classification(run.read_records("sums.tsv"))
    assert result["R2"] > 80 and result["mean absolute error"] < 1


def test_a_data_set_of_graphs_has_a_target_per_node(tmp_path):
    examples = [labelled("(good (so a) (- (- b) (bad c)))"), labelled("(bad c)"), labelled("(- (- a) (so b))")]
    settings = {"vocabulary": Vocabulary.of_words("abc"), "tasks": "node_classification", "signature": PHRASES}
    formats.write(tmp_path / "a.txt", examples)
    of_file = [TreeDataset(tmp_path / "a.txt", save_dir=tmp_path, **settings) for _ in range(2)]
    assert of_file[1].has_cache()
    for data in (TreeDataset(examples, **settings), *of_file):
        graph, target = data[0]
        assert graph.num_nodes() == 5 and target.tolist() == [2, 1, -100, -100, 0]
        for samples in (data.__getitems__([2, -2]), [data[2], data[1]]):
            trees, targets = data.collate(samples)
            assert targets.tolist() == [-100, -100, 1, 0]
        output = model_of("node_classification").float()(trees)
        assert torch.nn.functional.cross_entropy(output, targets).isfinite()  # over the two that are known
        batch = model_of("node_classification").float().prepare([examples[2], examples[1]]).batch(np.arange(2))
        torch.testing.assert_close(output, model_of("node_classification").float()(batch))
    assert TreeDataset(examples, **{**settings, "tasks": "classification"})[1][1] == 0
    with pytest.raises(ConfigurationError, match="cannot be in a TreeDataset with other tasks"):
        TreeDataset(examples, **{**settings, "tasks": ("node_classification", "classification")})


def test_what_a_program_gives_is_checked_like_a_file():
    model, tree = model_of("node_classification"), Expression.parse("(- (- a) (- b))", PHRASES)
    dataset = model.prepare([Example(tree, "bad")])
    assert dataset.nodes.tolist() == [0, 1, 2] and np.isnan(dataset.targets).tolist() == [False, True, True]
    for example, message in (
        (Example(tree, labels=("good", "bad")), "There are 2 labels for 3 nodes"),
        (Example(tree, labels=("god", "bad", None)), "Unknown class 'god'. Did you mean 'good'"),
        (Example(tree, "god"), "Unknown class 'god'"),
    ):
        assert_raises(DataError, message, model.prepare, [example])
    pairs = from_dict({"name": "p", "classes": ["x", "y"], "root": "P", "operators": {"f": 1, "P": 2}})
    model = model_of("node_classification", pairs)
    with pytest.raises(DataError, match="fits none of the model's tasks"):
        model.prepare([Example(Equation.from_prefix("P f Word:a Word:b", pairs), "x")])


@pytest.mark.parametrize(("task", "outputs"), [("classification", 3), ("node_classification", 6)])
def test_training_leaves_out_what_has_no_label(tmp_path, monkeypatch, task, outputs):
    monkeypatch.chdir(tmp_path)
    run = start(film_config(task, group_by="size", max_depth=1), 0, tmp_path / "runs", quiet=True)
    shallow = outputs - (task == "node_classification")  # the second tree, of depth 2, has a label at one node
    result = read(run.folder)
    assert result.of("validation")["correct"].count() == shallow
    best = result.rows[result.about["best_epoch"] - 1]
    assert accuracy(result.of("validation")) == pytest.approx(best["validation_accuracy"])
    assert result.trained == (range(1, 4))
    assert result.of("test")["correct"].count() == outputs


def test_inspection_and_prediction_answer_at_nodes_without_a_label(tmp_path, monkeypatch, treestack):
    monkeypatch.chdir(tmp_path)
    start(film_config(max_depth=0), 0, Path("runs"), quiet=True)
    lines = treestack("predict", "film.txt", "--run", "runs/film-0").splitlines()
    assert len(lines) == 5 and all(line.split("\t")[0] in ("positive", "negative") and "-" not in line for line in lines)
    asked = ("film.txt", "--run", "runs/film-0", "--equation", "2", "--output", "tree.svg", "--json")
    shown = json.loads(treestack("inspect", *asked))
    assert None not in shown["models"]["tree_rnn"]["answers"] and len(shown["models"]["tree_rnn"]["answers"]) == 5
    assert [node["label of the data"] for node in shown["nodes"]] == [None, None, "positive", None, None]


def test_counting_operators_of_all_subtrees_takes_linear_time():
    text = "(- " * 3000 + "(- a)" + " (- b))" * 3000
    tree = read_tree(text, PHRASES)[0]
    assert [measure("operators", tree, node) for node in range(tree.size)][:3001] == list(range(3000, -1, -1))
