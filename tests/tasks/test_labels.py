"""Tasks on trees of words: labels at nodes, class weights, numbers."""

import json

import numpy as np
import pytest
import torch

from dgl_treestack.cli import main
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.formats.tabular import read_tree
from dgl_treestack.data.records import accuracy
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.language import from_dict
from dgl_treestack.model.dataset import measure
from dgl_treestack.model.model import Model
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.results.metrics import classification
from dgl_treestack.results.run_result import read
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.configuration import load
from dgl_treestack.runs.run import Run
from dgl_treestack.training.start import start

PHRASES = from_dict({"name": "phrases", "notation": "labelled", "classes": ["bad", "so", "good"], "operators": {"compose": 2}})
SUMS = from_dict({"name": "sums", "classes": "numbers", "operators": {"plus": 2}})


def labelled(text, id="t"):
    tree, labels = read_tree(text, PHRASES)
    return Example(tree, labels[0] if labels else None, id, labels=labels)


def succeed(*command):
    with pytest.raises(SystemExit) as exit:
        main([*command])
    assert not exit.value.code


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
        with pytest.raises(ConfigurationError, match=message):
            model_of(task, language, class_weights=weights)


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
    with pytest.raises(ConfigurationError, match="The labels of the language 'phrases' are no numbers"):
        model_of("regression", PHRASES)
    with pytest.raises(ConfigurationError, match="has no classes"):
        model_of("classification", SUMS)


def test_a_regression_run_keeps_the_epoch_of_the_smallest_loss(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("sums.toml").write_text('classes = "numbers"\n[operators]\nplus = 2\n')
    lines = [f"{a + b}\t(plus {a} {b})" for a in range(4) for b in range(4)]
    tmp_path.joinpath("sums.tsv").write_text("\n".join(lines) + "\n")
    tmp_path.joinpath("run.toml").write_text(
        """
name = "sums"
batch_size = 4
model = { name = "tree_lstm", hidden = 8, vocabulary = "train", tasks = ["regression"] }
data = { language = "sums.toml", train = ["sums.tsv"], validation = ["sums.tsv"], test = ["sums.tsv"] }
optimizer = { learning_rate = 0.05 }
schedule = { epochs = 12 }
"""
    )
    succeed("train", "run.toml", "--quiet")
    succeed("evaluate", "runs/sums-0", "sums.tsv")
    printed = capsys.readouterr().out
    assert "R2" in printed and "mean absolute error 0." in printed
    rows = [json.loads(line) for line in Run("runs/sums-0").metrics.read_text().splitlines()]
    best = min(rows, key=lambda row: row["validation_loss"])
    assert Run("runs/sums-0").done.read_text().strip() == f"best epoch {best['epoch']}"
    result = classification(Run("runs/sums-0").read_records("sums.tsv"))
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
        with pytest.raises(DataError, match=message):
            model.prepare([example])
    pairs = from_dict({"name": "p", "classes": ["x", "y"], "root": "P", "operators": {"f": 1, "P": 2}})
    model = model_of("node_classification", pairs)
    with pytest.raises(DataError, match="fits none of the model's tasks"):
        model.prepare([Example(Equation.from_prefix("P f Word:a Word:b", pairs), "x")])


CONFIG = """
name = "film"
batch_size = 2
model = {{ name = "tree_rnn", hidden = 4, vocabulary = "train", tasks = ["{task}"] }}
data = {{ language = "sentiment_binary", train = ["film.txt"], validation = ["film.txt"], test = ["film.txt"], {more} }}
schedule = {{ epochs = 2 }}
"""
FILM = ["(3 (2 It) (4 works))", "(2 (2 A) (3 (2 neat) (2 film)))", "(2 (2 It) (2 goes))", "(1 bad)", "(0 (0 Dull) (2 film))"]


@pytest.mark.parametrize(("task", "outputs"), [("classification", 3), ("node_classification", 6)])
def test_training_leaves_out_what_has_no_label(tmp_path, monkeypatch, task, outputs):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "film.txt").write_text("\n".join(FILM) + "\n")
    (tmp_path / "run.toml").write_text(CONFIG.format(task=task, more='group_by = "size", max_depth = 1'))
    run = start(load(tmp_path / "run.toml"), 0, tmp_path / "runs", quiet=True)
    shallow = outputs - (task == "node_classification")  # the second tree, of depth 2, has a label at one node
    result = read(run.folder)
    assert result.of("validation")["correct"].count() == shallow
    best = result.rows[result.about["best_epoch"] - 1]
    assert accuracy(result.of("validation")) == pytest.approx(best["validation_accuracy"])
    assert result.trained == (range(1, 4))
    assert result.of("test")["correct"].count() == outputs


def test_inspection_and_prediction_answer_at_nodes_without_a_label(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "film.txt").write_text("\n".join(FILM) + "\n")
    (tmp_path / "run.toml").write_text(CONFIG.format(task="node_classification", more="max_depth = 0"))
    succeed("train", "run.toml", "--quiet")
    capsys.readouterr()
    succeed("predict", "film.txt", "--run", "runs/film-0")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all(line.split("\t")[0] in ("positive", "negative") and "-" not in line for line in lines)
    succeed("inspect", "film.txt", "--run", "runs/film-0", "--equation", "2", "--output", "tree.svg", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert None not in shown["models"]["tree_rnn"]["answers"] and len(shown["models"]["tree_rnn"]["answers"]) == 5
    assert [node["label of the data"] for node in shown["nodes"]] == [None, None, "positive", None, None]


def test_counting_operators_of_all_subtrees_takes_linear_time():
    text = "(- " * 3000 + "(- a)" + " (- b))" * 3000
    tree = read_tree(text, PHRASES)[0]
    assert [measure("operators", tree, node) for node in range(tree.size)][:3001] == list(range(3000, -1, -1))
