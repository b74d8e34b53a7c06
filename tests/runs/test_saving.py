"""A model of a user's own loop becomes the folder of a run, from which the same model is built again."""

import json
import subprocess
import sys

import pytest
import torch
from each_case import assert_raises, cases
from small_runs import write_data
from torch.nn.functional import binary_cross_entropy_with_logits

from dgl_treestack import Model, Operator, Run, Signature, Vocabulary, cells, load
from dgl_treestack.cells.tree_rnn import TreeRNN
from dgl_treestack.data import formats
from dgl_treestack.errors import CheckpointError, ConfigurationError
from dgl_treestack.expression import language
from dgl_treestack.results import run_result
from dgl_treestack.runs import configuration
from dgl_treestack.runs.evaluation import evaluate

EQUATIONS = ["x + y = y + x", "sin(x)**2 = 1.29", "x = 2*x"]
SLOTS = {"slots": 2, "inner": 4, "signals": {"value": 1.0, "points": 4}}
SLOTS |= {"head_settings": {"verification": {"compare": "slots"}}}
WEIGHTED = {"class_weights": {"good": 2}, "vector_size": 3}
OF_WORDS = {"vocabulary": Vocabulary.of_words(["good", "bad"]), "tasks": "classification"}
JOIN_NOT = Operator("Join", 2), Operator("Not", 1)
REVIEWS = Signature("reviews", JOIN_NOT, words=True, notation="brackets", classes=("bad", "good"))
PAIRS = Signature("prefixed pairs", (Operator("Not", 1), Operator("And", 2), Operator("Iff", 2)), root="Iff")


class Summed(TreeRNN):
    """A cell of a user's."""


@pytest.fixture
def registered(clean_registries):
    cells.register_cell("summed")(Summed)
    language.register_language(PAIRS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@cases(
    ("tree_smu", {"stack_size": 3, "dropout": 0.2, "masks": "subtree"}, EQUATIONS),
    ("tree_lstm", {"share": "all", "form": "child_sum", "vocabulary": "released"}, EQUATIONS),
    (Summed, {"activation": "tanh"}, EQUATIONS),
    ("transformer", {"heads": 2}, ["x + y = y + x", "x = 2*x"]),
    ("tree_slots", {**SLOTS, "tasks": ["function_evaluation", "verification"]}, EQUATIONS),
    ("tree_rnn", {"vocabulary": Vocabulary("canonical", (("Symbol", "q"), ("Integer", "2")))}, ["q = 2*q"]),
    ("tree_lstm", {**OF_WORDS, "signature": REVIEWS, **WEIGHTED}, ["(Join good (Not bad))"]),
    ("tree_rnn", {**OF_WORDS, "signature": "listops", "form": "child_sum"}, ["[MAX 2 good ]"]),
    ("tree_rnn", {"signature": PAIRS}, ["Iff Symbol:x Not Symbol:y"]),
    ("tree_rnn", {"input_size": 2}, []),
)
def test_a_saved_model_is_the_same(tmp_path, registered, dtype, cell, settings, trees):
    model = Model.build(cell, hidden=4, seed=0, **settings).to(dtype)
    run = model.save(tmp_path / "mine-3")
    again = load(run.folder)
    assert again.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, model.state_dict()[key]) for key, tensor in again.state_dict().items())
    assert (again.vocabulary, again.signature, again.masks) == (model.vocabulary, model.signature, model.masks)
    if trees:
        assert torch.equal(again.score(trees), model.score(trees)) and again.score(trees).dtype == dtype
    assert (run.config.name, run.seed, run.best_epoch()) == ("mine", 3, 0)
    assert again.save(tmp_path / "mine-4").config == run.config
    (tmp_path / "config.toml").write_text(configuration.dump(run.config))
    assert configuration.load(tmp_path / "config.toml") == run.config
    assert {path.suffix for path in run.folder.rglob("*") if path.is_file()} <= {".toml", ".json", ".safetensors", ""}


def test_what_cannot_be_saved(tmp_path):
    """The name of a folder is a name and a seed."""
    model = Model.build("tree_rnn", hidden=4, seed=0)
    for folder, name, seed in (("run", "run", 0), ("lr-0.01-12", "lr-0.01", 12), ("deep/mine-3", "mine", 3)):
        run = model.save(tmp_path / folder)
        assert (run.config.name, run.seed) == (name, seed)

    def refused(message, model=model, folder="other", kind=ConfigurationError, **data):
        assert_raises(kind, message, model.save, tmp_path / folder, **data)
        assert not (tmp_path / "other").exists()

    refused("run exists and is not empty. Choose another folder, or delete it", folder="run")
    refused("'name' is 'my model'; it names a folder", folder="my model")
    refused(r"Did you mean 'data\.train'", trian=["a.jsonl"])
    refused("made without `Model.build`", Model(model.cell, [*model.heads.values()], model.vocabulary))
    refused("Summed has no name. Write @register_cell", Model.build(Summed, hidden=4, seed=0))
    of_pairs = Model.build("tree_rnn", hidden=4, signature=PAIRS, seed=0)
    refused("'prefixed pairs' is not registered. Call register_language", of_pairs)
    changed = Model.build("tree_rnn", hidden=4, seed=0)
    changed.heads["verification"].more = torch.nn.Linear(2, 2)
    refused("does not fit the model of its configuration: heads.verification.more", changed, kind=CheckpointError)
    with torch.no_grad():
        model.heads["verification"].bias.fill_(float("nan"))
    refused("not finite", model, kind=CheckpointError)


def test_a_setting_that_no_file_can_hold_and_a_registered_cell_in_a_process_without_it(tmp_path, registered):
    class Odd(TreeRNN):
        def __init__(self, *sizes, odd=None, **common):
            super().__init__(*sizes, **common)

    cells.register_cell("odd")(Odd)
    with pytest.raises(ConfigurationError, match=r"A value of 'odd' cannot be written: .*builtin_function"):
        Model.build("odd", hidden=4, seed=0, odd=len).save(tmp_path / "odd")
    assert not (tmp_path / "odd").exists()
    folder = Model.build(Summed, hidden=4, seed=0).save(tmp_path / "summed").folder
    code = f"import dgl_treestack; dgl_treestack.load({str(folder)!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Unknown model 'summed'" in result.stderr and "registered in this process" in result.stderr


def test_every_command_reads_a_model_of_a_loop_of_ones_own(tmp_path, treestack):
    data = write_data(tmp_path / "train.jsonl", 60)
    test = write_data(tmp_path / "test.jsonl", 160, 2, "test")
    model = Model.build("tree_smu", hidden=4, seed=0, stack_size=2)
    dataset = model.dataset(data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        trees, label = dataset.collate([dataset[i] for i in range(60)])
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(model(trees), label).backward()
        optimizer.step()
    folder = model.save(tmp_path / "mine-0", train=[data], max_depth=3).folder

    for command in (["report", folder], ["plot", "depth", folder, "--output", tmp_path / "depth.svg"]):
        assert f"no test records. Evaluate it: treestack evaluate {folder} FILE" in treestack(*command, code=2)
    assert "160 equations" in treestack("evaluate", folder, test)
    table = treestack("report", folder)
    assert "| mine | tree_smu |" in table and "depth 1-3 | test, depth 4-" in table and "best epoch" not in table
    treestack("plot", "depth", folder, "--output", tmp_path / "depth.svg")
    assert (tmp_path / "depth.svg").exists()
    assert f"trained on {data} up to depth 3" in treestack("verify", "x = x", "--run", folder)
    assert "x = y" in treestack("predict", "x = y", "--run", folder)
    assert "by who is right (tree_smu)" in treestack("inspect", test, "--run", folder)
    scores = model.score([example.equation for example in formats.read(test)]).tolist()
    assert scores == pytest.approx(Run(folder).read_records(test)["score"].to_list(), abs=1e-6)

    other = model.save(tmp_path / "mine-1", train=[data], max_depth=3)
    evaluate(other, test)
    assert "0 1" in treestack("report", folder, other.folder)  # seeds of one row
    assert run_result.read(other.folder).best_row() is None


def test_what_is_no_run_has_a_remedy_and_a_model_of_the_package_is_saved_again(tmp_path):
    model = Model.build("tree_rnn", hidden=4, seed=0)
    run = model.save(tmp_path / "run")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    for wrong, message in (
        (tmp_path / "model.pt", r"model\.pt is a file, .* not read\. .* model\.load_state_dict, .* model\.save\(FOLDER\)"),
        (run.best, f"Give the folder of the run, {run.folder}"),
        (model, r"Use the model as it is, or write it with model\.save"),
        (torch.nn.Linear(2, 2), "Use the model as it is"),
        (model.state_dict(), r"model\.load_state_dict"),
        (None, "by name, not <class 'NoneType'>"),
        (tmp_path / "absent.pt", "no folder of a run. Unknown pretrained model"),
        (tmp_path, f"Give a folder in it, such as {run.folder}"),
    ):
        assert_raises(CheckpointError, message, load, wrong)
    run = load("tree_smu").save(tmp_path / "copy")
    assert torch.equal(load(run.folder).score(EQUATIONS), load("tree_smu").score(EQUATIONS))
    assert json.loads((run.folder / "environment.json").read_text())["seed"] == 0
