"""What a person asks of a model in Python: scores, states, models by name or folder, cells and tasks of one's own."""

import subprocess
import sys

import pytest
import torch
from each_case import assert_raises
from small_runs import small_config

from dgl_treestack import Cell, Equation, Model, Task, cells, load, pretrained, tasks
from dgl_treestack.cells.tree_rnn import TreeRNN
from dgl_treestack.cli.doctor import examine
from dgl_treestack.data import graph
from dgl_treestack.errors import CheckpointError, ConfigurationError, ExpressionError, VocabularyError
from dgl_treestack.expression import language
from dgl_treestack.propagate import propagate
from dgl_treestack.tasks.verification import Verification
from dgl_treestack.training.start import start


def test_scores_of_texts_and_trees():
    model = Model.build("tree_smu", 6, seed=0, dropout=0.5)
    texts = ["x + y = y + x", "sin(x) = 2"]
    model.train().cell.eval()
    scores = model.score(texts)
    assert scores.shape == (2,) and not scores.requires_grad
    assert model.training and not model.cell.training, "every part is left in its mode"
    torch.testing.assert_close(scores, model.score([Equation.parse(text) for text in texts]))
    torch.testing.assert_close(model.score(texts[1]), scores[1:])
    batch = graph.from_expressions([Equation.parse(text) for text in texts], model.vocabulary)
    torch.testing.assert_close(scores, model.eval()(batch))
    assert model.score([]).shape == (0,)
    assert_raises(ExpressionError, "column", model.score, "x + = y")
    assert_raises((VocabularyError, ValueError), "no row for Symbol 'theta'", model.score, "theta = x")


def test_states_are_those_of_propagate():
    model = load("tree_smu")
    batch = graph.from_expressions([Equation.parse("x*(y + 2) = 2*x + x*y")], model.vocabulary)
    h = model.states(batch)
    assert {"signal/push", "signal/pop", "signal/noop", "stack"} <= set(batch.ndata)
    expected = propagate(batch.clone(), model.cell)
    torch.testing.assert_close(h, expected)
    without = graph.from_expressions([Equation.parse("x = y")], model.vocabulary)
    model.states(without, signals=[])
    assert "signal/push" not in without.ndata


def test_models_by_name_and_by_folder(tmp_path):
    assert list(pretrained()) == ["tree_slots", "tree_smu"] and "tree_smu" in pretrained()["tree_smu"]
    assert not load("tree_smu").training
    assert (load("tree_smu").score(["x + y = y + x", "x + y = y*x"]) > 0).tolist() == [True, False]
    run = start(small_config(tmp_path, schedule={"epochs": 1}), 0, tmp_path, quiet=True)
    torch.testing.assert_close(load(run.folder).score("x = y"), run.load_model().score("x = y"))
    assert load(str(run.folder), torch.float64).score("x = y").dtype == torch.float64
    assert_raises(CheckpointError, r"tree_smv is no folder of a run. .* Did you mean 'tree_smu'", load, "tree_smv")


class Summed(TreeRNN):
    """A cell of a user's."""


def test_a_registered_cell_has_a_name_for_models_and_configurations(tmp_path, clean_registries):
    assert cells.register_cell("summed", settings={"activation": "tanh"}, adds="nothing")(Summed) is Summed
    cells.register_cell("summed")(Summed)  # a notebook's cell may be run twice
    assert issubclass(Summed, Cell) and "summed" in cells.models()
    run = start(small_config(tmp_path, model={"name": "summed", "hidden": 3}, schedule={"epochs": 1}), 0, tmp_path, quiet=True)
    assert isinstance(load(run.folder).cell, Summed)
    assert isinstance(Model.build(Summed, 5, seed=1, activation="tanh").cell, Summed), "by its class"
    cells.register_cell("lstm")(Summed)
    for call, message in (
        (lambda: cells.register_cell("tree_smu")(Summed), "another model 'tree_smu'"),
        (lambda: cells.register_cell("other")(dict), "no class derived from"),
        (lambda: Model.build(Summed, 5, stack_size=2), "Model 'Summed': Unknown setting 'stack_size'"),
        (lambda: Model.build(dict, 5), "no class derived from"),
        (lambda: Model.build("lstm", 4), "'lstm' is the name of a registered cell and of a sequence or attention"),
    ):
        assert_raises(ConfigurationError, message, call)


def test_a_registered_task_has_a_name_for_models(clean_registries):
    @tasks.register_task
    class Cosine(Verification):
        name = "cosine"

        def forward(self, h, roots, sides):
            left, right = h(sides).unbind(1)
            return torch.cosine_similarity(left, right)

    assert issubclass(Cosine, Task)
    model = Model.build("tree_rnn", 4, tasks=["cosine"], seed=0)
    assert model.score("x = x").item() == pytest.approx(1.0)
    assert_raises(ConfigurationError, "another task 'verification'", tasks.register_task, type("Other", (Verification,), {}))
    assert_raises(ConfigurationError, "no class derived from", tasks.register_task, dict)


def test_entry_points_of_other_packages(tmp_path, monkeypatch, caplog, clean_registries):
    """A package that is installed adds cells and tasks without a line here, registered by a decorator or not; what is wrong
    with one of its entry points is a warning, a problem of `doctor`, and no obstacle for the others."""
    (tmp_path / "somebodys.py").write_text(
        "from dgl_treestack.cells import CellSpec\n"
        "from dgl_treestack.cells.tree_rnn import TreeRNN\n"
        "from dgl_treestack.tasks.verification import Verification\n"
        "from dgl_treestack import MATH, register_cell, register_language, register_task\n"
        "from dataclasses import replace\n"
        "class Own(TreeRNN): pass\n"
        "@register_cell('decorated')\nclass Decorated(TreeRNN): pass\n"
        "@register_task\nclass Judge(Verification): name = 'judge'\n"
        "SOUP = register_language(replace(MATH, name='soup'))\n"
        "MODELS = {'somebodys_tanh': CellSpec(Own, 'nobody 2026', '1', 'tanh', {'activation': 'tanh'})}\n"
    )
    described = tmp_path / "somebodys-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(
        "[dgl_treestack.cells]\nsomebodys = somebodys:Own\nmore = somebodys:MODELS\ndecorated = somebodys:Decorated\n"
        "gone = somebodys:Gone\nbroken = nowhere:Cell\nno_cell = somebodys:MATH\n"
        "[dgl_treestack.tasks]\njudge = somebodys:Judge\nno_task = somebodys:Own\n"
        "[dgl_treestack.languages]\nsoup = somebodys:SOUP\nno_language = somebodys:Own\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"somebodys", "somebodys_tanh", "decorated"} <= set(cells.models())
    assert "judge" in tasks.tasks() and "soup" in language.languages()
    assert Model.build("somebodys_tanh", 3, tasks=["judge"], seed=0).score("x = y").shape == (1,)
    problems = "\n".join(examine()["problems"])
    for wrong in ("gone", "broken", "no_cell", "no_task", "no_language"):
        assert f"entry point {wrong} = " in problems and caplog.text.count(f"entry point {wrong} = ") == 1
    assert problems.count("is left out") == 5
    sys.modules.pop("somebodys")


def test_an_encoder_has_no_signals_and_no_unknown_engine():
    model = Model.build("lstm", 4, seed=0)
    batch = graph.from_expressions([Equation.parse("x = y")], model.vocabulary)
    assert_raises(ConfigurationError, "has no signals, such as 'push'", model, batch, signals=["push"])
    assert_raises(ConfigurationError, "Unknown engine 'fast'", model, batch, "fast")


# Dynamo hides this warning, but not where warnings are errors
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize(("name", "number"), [("tree_smu", "1.29"), ("lstm", "2"), ("transformer", "2")])
def test_a_compiled_model_has_the_scores_and_gradients_of_the_model(name, number):
    model = Model.build(name, 8, seed=0)
    compiled = torch.compile(model, backend="eager")
    for texts in (["sin(x + y)*x = cos(y)", "x = y"], ["x*y = y*x", "sin(y) = x", f"x = 2*x*(y + {number})"]):
        batch = graph.from_expressions([Equation.parse(text) for text in texts], model.vocabulary)
        results = []
        for callee in (model, compiled):
            scores = callee(batch)
            used = [parameter for parameter in model.parameters() if parameter.requires_grad]
            results.append([scores, *torch.autograd.grad(scores.square().sum(), used, materialize_grads=True)])
        torch.testing.assert_close(*results)


def test_scores_need_no_compiler():
    code = "import dgl_treestack, sys; dgl_treestack.load('tree_smu').score('x = x'); print('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
