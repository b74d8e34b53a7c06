"""Trees of an invented language, and vectors of its words, by commands alone: trained, stopped, resumed, drawn, asked."""

import glob
import gzip
import json
import random
import re
import shutil
import signal

import pytest
import torch
from each_case import cases
from small_runs import contents, stopped_at

from dgl_treestack import Equation, Example, Model, Run, Vocabulary
from dgl_treestack.data import records
from dgl_treestack.expression.language import find
from dgl_treestack.runs.weights import read_weights
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


# Vectors of words from a file: frozen and trained, stopped, resumed, asked without the file

VECTORS = {
    "high": [1.0, 0.5, -0.25],
    "it's (not) so": [0.0, 2.0, 1.0],  # a word with spaces
    "low": [-1.0, 0.125, 0.75],
    "rare": [0.5, 0.5, 0.5],  # in a test tree only
    "seldom": [0.25, -0.5, 0.0],  # in a validation tree without a label
    "elsewhere": [9.0, 9.0, 9.0],
}
LSTM = ("model.name=lstm", "model.settings={}")
SET = ("model.vectors=vectors.txt.gz", "model.vector_size=3")
PLAIN = ("model.vectors=", "model.vector_size=0")  # without vectors


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a language, a configuration, data and vectors. The word 'middle' has no vector."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, "trees")
    for name, line in (("test", "low\t(most rare unheard)"), ("validation", "-\t(most seldom unseen)")):
        with (tmp_path / f"{name}.tsv").open("a") as file:
            file.write(f"{line}\n")
    write_vectors(tmp_path / "vectors.txt.gz", VECTORS)
    return tmp_path


def write_vectors(path, vector_of):
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in vector_of.items()]
    path.write_bytes(gzip.compress("".join(lines).encode()))


@pytest.fixture
def train(treestack):
    """A function that trains a run into a folder with values of the configuration; it returns the run, or the error."""

    def call(output_dir, *values, options=(), code=0):
        command = ("train", "run.toml", "--output-dir", output_dir, "--quiet", *options)
        errors = treestack(*command, "--set", *SET, *values, code=code)
        return errors if code else Run.open(f"{output_dir}/own-0")

    return call


@pytest.mark.parametrize("freeze", ["true", "false"])
def test_from_vectors_to_an_answer_without_them(folder, train, treestack, freeze):
    frozen = f"model.freeze_vectors={freeze}"
    begun = read_weights(train("begun", frozen, "schedule.epochs=0").best)[0]
    whole = train("whole", frozen)
    words = [text for _, text in whole.vocabulary.leaves]
    assert words == ["", "high", "it's (not) so", "low", "middle", "rare", "seldom"]
    assert {*whole.environment["data"]} == {"own.toml", "vectors.txt.gz", "train.tsv", "validation.tsv", "test.tsv"}
    assert "5 of 6 words of the vocabulary have a vector in vectors.txt.gz" in whole.log.read_text()
    for row, word in enumerate(words):
        assert (begun["cell.leaves.table"][row].tolist() == VECTORS.get(word)) == (word in VECTORS)

    best, last, first = read_weights(whole.best)[0], read_weights(whole.last)[0], begun["cell.leaves.table"]
    for table in (best["cell.leaves.table"], last["model/cell.leaves.table"]):
        unchanged = [word for word, is_same in zip(words, (table == first).all(1), strict=True) if is_same]
        assert unchanged == (words if freeze == "true" else ["", "rare", "seldom"])  # which no training tree has
    for name in ("cell.leaves.projection.weight", "heads.classification.decoder.weight"):
        assert not torch.equal(best[name], begun[name])

    with stopped_at(TreeObjective, 8, signal.SIGINT):
        assert "Stopped by SIGINT" in train("stopped", frozen, code=130)
    write_vectors(folder / "vectors.txt.gz", {**VECTORS, "low": [0.0, 0.0, 0.0]})
    assert "vectors.txt.gz has changed since" in train("stopped", frozen, options=["--resume"], code=2)
    (folder / "vectors.txt.gz").unlink()
    stopped = train("stopped", frozen, options=["--resume"])
    assert contents(stopped.folder) == contents(whole.folder)
    answer, text = treestack("predict", "(most rare low)", "--run", "stopped/own-0").strip().split("\t")
    assert answer in ("low", "middle", "high") and text == "(most rare low)"


def test_a_run_that_was_killed_before_its_first_checkpoint_reads_the_file_again(folder, train):
    whole = train("runs")
    metrics, weights = whole.metrics.read_text(), whole.last.read_bytes()

    def kill():
        shutil.rmtree(whole.last.parent)
        for path in (whole.metrics, whole.done):
            path.unlink(missing_ok=True)

    kill()
    train("runs", options=["--resume"])
    assert (whole.metrics.read_text(), whole.last.read_bytes()) == (metrics, weights)
    kill()
    (folder / "vectors.txt.gz").unlink()
    assert "vectors.txt.gz: Cannot be read: No such file" in train("runs", options=["--resume"], code=2)


def test_vectors_as_wide_as_h_are_the_states_of_their_leaves(folder, train):
    wide = {word: [*vector, 1.0, 2.0, 3.0, 4.0, 5.0] for word, vector in VECTORS.items()}
    write_vectors(folder / "vectors.txt.gz", wide)
    run = train("runs", "model.vector_size=0", "schedule.epochs=0")
    model = run.load_model()
    assert "cell.leaves.projection.weight" not in model.state_dict()
    row = model.vocabulary.row("Word", "rare")
    assert model.cell.leaf(torch.tensor([row]), torch.zeros(1))["h"].tolist() == [wide["rare"]]


def test_a_vocabulary_from_a_file(folder, train):
    (folder / "words.txt").write_text("low\nit's (not) so\n\nlow \nelsewhere\nnowhere\n")
    given = ("model.vocabulary=words.txt", "schedule.epochs=1")
    run = train("runs", *given)
    assert [text for _, text in run.vocabulary.leaves] == ["", "elsewhere", "it's (not) so", "low", "nowhere"]
    assert "3 of 4 words" in run.log.read_text() and "words.txt" in run.environment["data"]
    plain = train("plain", *given, *PLAIN)
    assert plain.vocabulary == run.vocabulary and "vectors.txt.gz" not in plain.environment["data"]
    (folder / "words.txt").write_text("low\n")
    assert "words.txt has changed since" in train("runs", *given, options=["--resume"], code=2)


@cases(
    (["model.vectors=absent.txt"], "absent.txt: Cannot be read: No such file"),
    (["model.vector_size=4"], "vectors.txt.gz:1: The word has 3 numbers after it"),
    (["model.vector_size=0"], "the table of the model takes 8. Set 'model.vector_size'"),
    (["model.vectors=other.txt"], "other.txt: None of the 8 words of the data is in the file"),
    ([*LSTM, "model.vector_size=0"], "'model.vectors' is 'vectors.txt.gz', but lstm has no leaf encoder. Leave it out"),
    ([*LSTM, "model.vectors="], "'vector_size' is 3; lstm"),
    (["data.language=math", "model.vocabulary=canonical"], "leaves of 'math' are no words"),
    (["model.vectors=", "model.freeze_vectors=true"], "Name their file in 'model.vectors'"),
    (["model.vector_size=-1"], "'model.vector_size' is -1; it must be at least 0"),
    (["model.settings.vector_size=3"], "'vector_size' is no setting of a model's class"),
    (["model.vocabulary=empty.txt"], "empty.txt: The file has no words. Write one per line"),
    (["model.vocabulary=absent.txt"], "absent.txt: Cannot be read"),
    (["data.language=math", "model.vocabulary=words.txt"], "leaves are numbers and variables"),
    ([*PLAIN, "data.language=math"], "leaves are numbers and variables"),
    ([*PLAIN, "model.vocabulary=canonical"], "leaves are words. Set 'train'"),
    ([*PLAIN, "model.tasks=['verification']"], "fits none of the model's tasks"),
    ([*PLAIN, "data.language=owm"], "Unknown language 'owm'"),
    ([*PLAIN, "data.language=unlabelled.toml"], "has no classes, which the task 'classification' predicts"),
)
def test_what_does_not_fit_is_one_error(folder, train, values, message):
    (folder / "empty.txt").write_text("\n \n")
    (folder / "other.txt").write_text("Low 1 2 3\n")
    (folder / "unlabelled.toml").write_text("[operators]\nmost = 2\n")
    for language, line in (("math", "1\tx\tx\n"), ("unlabelled.toml", "1\tlow\n")):
        for name in ("train", "validation", "test") if f"data.language={language}" in values else ():
            (folder / f"{name}.tsv").write_text(line)
    assert message in train("runs", *values, code=2)
    assert not (folder / "runs").exists()
