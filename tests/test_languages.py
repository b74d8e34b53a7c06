"""Trees of an invented language, by commands alone: trained, stopped, resumed, evaluated, drawn, inspected, asked."""

import glob
import json
import random
import re
import signal

import pytest
import torch
from each_case import cases
from small_runs import contents, stopped_at

from dgl_treestack import Equation, Example, Model, Run, Vocabulary
from dgl_treestack.data import records
from dgl_treestack.expression.language import find
from dgl_treestack.training.trees import TreeObjective

LANGUAGE = """
classes = ["low", "middle", "high"]
{more}
[operators]
most = 2
turn = 1
{operators}
"""
# kind of examples -> what its language has besides, its task, the suffix of its files
KINDS = {
    "trees": ("", "least = 2", "classification", "tsv"),
    "pairs": ('root = "two"', "least = 2\ntwo = 2", "relation", "tsv"),
    "nodes": ('notation = "labelled"', "", "node_classification", "txt"),
}
CONFIG = """
name = "own"
batch_size = 16
checkpoint_steps = 3
[model]
name = "tree_smu"
hidden = 8
dropout = 0.1
vocabulary = "train"
tasks = ["{task}"]
settings = {{ stack_size = 2 }}
[data]
language = "own.toml"
train = ["train.{suffix}"]
validation = ["validation.{suffix}"]
test = ["test.{suffix}"]
group_by = "operators"
[optimizer]
learning_rate = 0.02
[schedule]
epochs = 6
"""
WORDS = ["low", "middle", "high", "it's (not) so"]
FUNCTIONS = {"most": max, "least": min, "turn": lambda value: 2 - value}


def tree(rng, depth):
    """A text and its value, 0 to 2."""
    if not depth:
        value = rng.randrange(4)
        return json.dumps(WORDS[value]) if value == 3 else WORDS[value], min(value, 2)
    name = rng.choice(list(FUNCTIONS))
    children = [tree(rng, rng.randrange(depth)) for _ in range(1 if name == "turn" else 2)]
    return f"({name} {' '.join(text for text, _ in children)})", FUNCTIONS[name](*(value for _, value in children))


def labelled_tree(rng, depth):
    """A text with a label at every node and its value; the operator is `turn` for one child, `most` for two."""
    if not depth:
        value = rng.randrange(3)
        return f"({WORDS[value]} {WORDS[value]})", value
    children = [labelled_tree(rng, rng.randrange(depth)) for _ in range(rng.choice((1, 2)))]
    value = 2 - children[0][1] if len(children) == 1 else max(value for _, value in children)
    return f"({WORDS[value]} {' '.join(text for text, _ in children)})", value


def write_files(folder, kind):
    """A language, data and a configuration. The label of a pair is the difference of its values, from -2 to 2, as a sign."""
    more, operators, task, suffix = KINDS[kind]
    folder.joinpath("own.toml").write_text(LANGUAGE.format(more=more, operators=operators))
    folder.joinpath("run.toml").write_text(CONFIG.format(task=task, suffix=suffix))
    names = ("low", "middle", "high")
    for number, (name, count) in enumerate({"train": 200, "validation": 60, "test": 200}.items()):
        rng, lines = random.Random(number), []
        for _ in range(count):
            draw = labelled_tree if kind == "nodes" else tree
            trees = [draw(rng, rng.randrange(4)) for _ in range(1 + (kind == "pairs"))]
            value = trees[0][1]
            label = names[1 + (value > trees[1][1]) - (value < trees[1][1])] if kind == "pairs" else names[value]
            lines.append("\t".join([*([] if kind == "nodes" else [label]), *(text for text, _ in trees)]))
        folder.joinpath(f"{name}.{suffix}").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", ["trees", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("pairs", "nodes"))])
def test_from_a_file_to_a_curve(tmp_path, monkeypatch, treestack, kind):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, kind)
    test = f"test.{KINDS[kind][-1]}"
    treestack("train", "run.toml", "--output-dir", "whole", "--quiet")
    with stopped_at(TreeObjective, 8, signal.SIGINT):
        treestack("train", "run.toml", "--output-dir", "stopped", "--quiet", code=130)
    (tmp_path / "own.toml").rename("gone.toml")  # a run needs its own copy alone
    (tmp_path / "own.toml").write_text((tmp_path / "gone.toml").read_text() + "more = 1\n")
    assert "own.toml has changed since" in treestack("train", "run.toml", "--output-dir", "stopped", "--resume", code=2)
    (tmp_path / "own.toml").unlink()
    whole, stopped = Run.open("whole/own-0"), Run.open("stopped/own-0")
    assert whole.language.classes == ("low", "middle", "high") and not stopped.done.exists()
    treestack("train", "run.toml", "--output-dir", "stopped", "--resume", "--quiet")
    assert contents(stopped.folder) == contents(whole.folder)
    accuracy = json.loads(treestack("evaluate", "whole/own-0", test, "--json"))
    assert accuracy["accuracy"] > 60 and 0 < accuracy["macro F1"] <= 100 and "3" in accuracy["by_operators"]
    assert "| own | tree_smu | 200 |" in treestack("report", "whole/own-0")
    assert "| test, operators 0-" in treestack("report", "whole/own-0", "--metric", "macro_f1")
    treestack("plot", "depth", "whole/own-0", "--output", "depth.svg")
    assert "operators of the tree" in (tmp_path / "depth.svg").read_text()
    treestack("plot", "confusion", "whole/own-0", "--output", "confusion.svg")
    shown = treestack("inspect", test, "--run", "whole/own-0", "--output", "tree.svg", "--html", "page.html")
    assert "200 equations with labels" in shown
    counted = treestack("inspect", test, "--language", "gone.toml", "--output", "tree.graphml")
    assert "graphs 200" in counted and "turn" in counted
    assert {"depth.svg", "tree.svg", "page.html", "tree.graphml"} <= {path.name for path in tmp_path.iterdir()}
    text = {"pairs": '(two (turn "unheard of") low)', "trees": '(turn "unheard of")', "nodes": '(- (- "unheard of"))'}[kind]
    answer, again = treestack("predict", text, "--run", "whole/own-0").strip().split("\t")
    assert answer in ("low", "middle", "high")
    assert re.fullmatch(rf'\({answer} \((low|middle|high) "unheard of"\)\)', again) if kind == "nodes" else again == text
    treestack("predict", test, "--run", "whole/own-0", "--output", "answers.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert answers == records.rows_of(whole.read_records(test))
    (tmp_path / "gone.toml").rename("own.toml")
    grid = 'base = "run.toml"\nseeds = [1]\n[set]\n"schedule.epochs" = 1\n[grid]\n"model.hidden" = [4]\n'
    (tmp_path / "sweep.toml").write_text(grid)
    assert "| 4 | own-" in treestack("sweep", "sweep.toml", "--output-dir", "sweep")
    assert "own-" in treestack("report", *glob.glob("sweep/*"))
    assert "`audit` judges equations" in treestack("audit", test, code=2)
    assert "not equations" in treestack("verify", "x = x", "--run", "whole/own-0", code=2)
    assert "not equations" in treestack("complete", "x = _", "--run", "whole/own-0", code=2)


@cases(
    (('vocabulary = "train"', 'vocabulary = "canonical"'), "leaves are words. Set 'train'"),
    (('["classification"]', '["verification"]'), "fits none of the model's tasks"),
    (('language = "own.toml"', 'language = "owm"'), "Unknown language 'owm'"),
    (("", ""), "has no classes, which the task 'classification' predicts"),
    (('language = "own.toml"\n', ""), "leaves are numbers and variables"),
)
def test_what_does_not_fit_is_one_error(tmp_path, monkeypatch, treestack, change, message):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, "trees")
    config, language = tmp_path / "run.toml", tmp_path / "own.toml"
    config.write_text(config.read_text().replace(*change))
    if "no classes" in message:
        language.write_text(language.read_text().replace('classes = ["low", "middle", "high"]', ""))
    for name in ("train", "validation"):
        lines = (tmp_path / f"{name}.tsv").read_text().splitlines()
        if "no classes" in message:
            (tmp_path / f"{name}.tsv").write_text("\n".join(f"1\t{line.partition(chr(9))[2]}" for line in lines))
        elif "numbers and variables" in message:
            (tmp_path / f"{name}.tsv").write_text("1\tx\tx\n")
    assert message in treestack("train", "run.toml", code=2)


@pytest.mark.parametrize("engine", ["topo", "levels"])
def test_outputs_are_rows_of_classes(engine):
    language, vocabulary = find("logic"), Vocabulary.of_words("ab")
    model = Model.build("tree_lstm", 6, vocabulary, "relation", language, seed=0).double().eval()
    pairs = {"Pair and Word:a Word:b not Word:a": "|", "Pair Word:b Word:b": "=", "Pair Word:b Word:a": None}
    examples = [Example(Equation.from_prefix(text, language), label) for text, label in pairs.items()]
    batch = model.prepare(examples).batch(torch.arange(3).numpy())
    output = model(batch, engine)
    assert output.shape == (3, 7)
    h = model.states(batch.graph)
    for row, (left, right) in zip(output, batch.sides.tolist(), strict=True):
        head, a, b = model.heads["relation"], h[left], h[right]
        hidden = torch.tanh(head.comparison.weight @ torch.cat([a, b, (a - b).abs(), a * b]) + head.comparison.bias)
        torch.testing.assert_close(row, head.decoder.weight @ hidden + head.decoder.bias)
    losses = model.losses(output, batch)
    expected = [-output[i].log_softmax(0)[language.classes.index(label)] for i, label in enumerate("|=")]
    torch.testing.assert_close(losses[:2], torch.stack(expected))
    assert losses[2].isnan() and model.correct(output, batch)[2] == 0
