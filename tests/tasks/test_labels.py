"""Tasks on trees of words: labels at nodes, class weights, numbers."""

import json

import numpy as np
import pytest
import torch

from dgl_treestack.cli import main
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.formats.tabular import read_labelled
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.expression import Expression
from dgl_treestack.expression.language import from_dict
from dgl_treestack.model.model import Model
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.results.metrics import classification
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.run import Run

PHRASES = from_dict({"name": "phrases", "notation": "labelled", "classes": ["bad", "so", "good"], "operators": {"compose": 2}})
SUMS = from_dict({"name": "sums", "classes": "numbers", "operators": {"plus": 2}})


def labelled(text, id="t"):
    tree, labels = read_labelled(text, PHRASES)
    return Example(tree, labels[0] if labels else None, id, labels=labels)


def model_of(task, language=PHRASES, **more):
    return Model.build("tree_lstm", 5, Vocabulary.of_words("abc"), task, language, seed=1, **more).double().eval()


@pytest.mark.parametrize("engine", ["topo", "levels"])
def test_every_labelled_node_has_an_output(engine):
    model = model_of("node_classification")
    examples = [labelled("(good (so a) (- (- b) (bad c)))"), labelled("(- (- a) (- b))"), labelled("(bad c)")]
    dataset = model.prepare(examples)
    assert dataset.offsets.tolist() == [0, 3, 6, 7] and dataset.nodes.tolist() == [0, 1, 4, 0, 1, 2, 0]
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


def test_records_of_nodes(tmp_path):
    model = model_of("node_classification")
    examples = [labelled("(good (so a) (- (- b) (bad c)))", "x"), labelled("(- (- a) (- b))", "y")]
    rows = list(evaluation.make_records(model, model.prepare(examples), group_by="size"))
    assert [row["id"] for row in rows] == ["x/0", "x/1", "x/4", "y/0", "y/1", "y/2"]
    assert [row["depth"] for row in rows] == [2, 0, 0, 1, 0, 0] and [row["size"] for row in rows] == [5, 1, 1, 3, 1, 1]
    assert [row["label"] for row in rows] == ["good", "so", "bad", None, None, None]
    for row in rows:
        assert row["predicted"] == PHRASES.classes[int(np.argmax(row["scores"]))]
        assert row["correct"] == (row["predicted"] == row["label"] if row["label"] else None)
    whole = [row for row in rows if row["node"] == 0]
    assert classification(rows)["accuracy at roots"] == 100 * whole[0]["correct"]


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
[model]
name = "tree_lstm"
hidden = 8
vocabulary = "train"
tasks = ["regression"]
[data]
language = "sums.toml"
train = ["sums.tsv"]
validation = ["sums.tsv"]
test = ["sums.tsv"]
[optimizer]
learning_rate = 0.05
[schedule]
epochs = 12
"""
    )
    for command in (["train", "run.toml", "--quiet"], ["evaluate", "runs/sums-0", "sums.tsv"]):
        with pytest.raises(SystemExit) as exit:
            main(command)
        assert not exit.value.code
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
    for data in (TreeDataset(examples, **settings), *(TreeDataset(tmp_path / "a.txt", save_dir=tmp_path, **settings),) * 2):
        graph, target = data[0]
        assert graph.num_nodes() == 5 and target.nan_to_num(-1).tolist() == [2, 1, -1, -1, 0]
        for samples in (data.__getitems__([2, -2]), [data[2], data[1]]):
            trees, targets = data.collate(samples)
            assert targets.nan_to_num(-1).tolist() == [-1, -1, 1, 0]
        output = model_of("node_classification").float()(trees)
        batch = model_of("node_classification").float().prepare([examples[2], examples[1]]).batch(np.arange(2))
        torch.testing.assert_close(output[targets.isfinite()], model_of("node_classification").float()(batch))
    assert TreeDataset(examples, **{**settings, "tasks": "classification"})[1][1] == 0
    with pytest.raises(ConfigurationError, match="cannot be in a TreeDataset with other tasks"):
        TreeDataset(examples, **{**settings, "tasks": ("node_classification", "classification")})


def test_a_node_label_needs_a_tree_and_not_a_pair():
    model = model_of("node_classification")
    example = labelled("(good a)")
    assert example.labels != () and model.prepare([example]).targets.tolist() == [2]
    unlabelled = Example(Expression.parse("(- (- a) (- b))", PHRASES), "bad")
    assert model.prepare([unlabelled]).nodes.tolist() == [0]  # the label of the tree alone
    with pytest.raises(DataError, match="label"):
        read_labelled("(god a)", PHRASES)
