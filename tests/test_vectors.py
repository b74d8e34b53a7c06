"""Vectors of words from a file, by commands alone: frozen and trained, stopped, resumed, asked without the file."""

import gzip
import shutil
import signal

import pytest
import torch
from each_case import cases
from small_runs import contents, stopped_at
from test_languages import write_files

from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import read_weights
from dgl_treestack.training.trees import TreeObjective

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
    plain = train("plain", *given, "model.vectors=", "model.vector_size=0")
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
)
def test_what_does_not_fit_is_one_error(folder, train, values, message):
    (folder / "empty.txt").write_text("\n \n")
    (folder / "other.txt").write_text("Low 1 2 3\n")
    if "data.language=math" in values:
        for name in ("train", "validation", "test"):
            (folder / f"{name}.tsv").write_text("1\tx\tx\n")
    assert message in train("runs", *values, code=2)
    assert not (folder / "runs").exists()
