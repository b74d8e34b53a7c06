"""The models of the package, against their cards; evaluation by several processes."""

import json
import shutil

import pytest
from each_case import assert_raises
from small_runs import small_run

from dgl_treestack import Equation, Run, judge
from dgl_treestack.data import formats, records
from dgl_treestack.errors import CheckpointError, DataError
from dgl_treestack.resources import find_data
from dgl_treestack.runs import evaluation, pretrained
from tools import pack


def test_the_packages_model_is_as_good_as_its_card_says_and_nothing_of_a_machine_is_packed():
    """At most five points below on the bundled test set, which was generated differently."""
    run = pretrained.open_run(None)
    examples = [example for example in formats.read(find_data("bundled:quickstart/test")) if example.label is not None]
    model, accuracies = run.load_model(), pretrained.card(pretrained.DEFAULT)["accuracy"]
    for depth in (4, 5, 6, 7, 8):
        chosen = [example for example in examples if example.equation.depth == depth]
        assert evaluation.score(model, model.prepare(chosen)).accuracy > accuracies[str(depth)]["percent"] - 5
    for name in pretrained.pretrained():
        environment = json.loads((pretrained.FOLDER / name / "environment.json").read_text())
        assert set(environment) == set(pack.KEPT) and isinstance(pretrained.open_run(None), Run)


def test_changed_weights_are_refused(monkeypatch, tmp_path):
    run = small_run(tmp_path)
    said = pretrained.trust(run, Equation.parse("x = y"))
    assert "trained on" in said and "up to depth 3" in said
    monkeypatch.setattr(pack, "FEWEST", 5)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "packed")
    pack.pack(run, pretrained.DEFAULT)
    pretrained.card.cache_clear()
    try:
        packed = pretrained.open_run(None)
        assert [*pretrained.pretrained()] == [pretrained.DEFAULT] and pretrained.is_packaged(packed)
        assert packed.config == run.config and packed.load_model() is not None
        card = (packed.folder / "MODEL_CARD.md").read_text()
        assert "Trained on 44 certified equations" in card and "Leaves in the training data: x, y, 2, 1.29." in card
        assert pretrained.card(pretrained.DEFAULT)["variables"] == ["x", "y"]
        table = run.read_records(run.config.data.test[0])
        of_test = table.filter(table["depth"].is_between(3, 7))
        (percent,) = (of_depths["3-7"] for of_depths in pretrained.card(pretrained.DEFAULT)["sets"].values() if of_depths)
        assert percent == round(records.accuracy(of_test), 1) and f"| 3-7 | {percent} |" in card
        said = {"sin(sin(x)) = x": "right for", f"x{'+ x' * 29} = y": "not measured at depth 30", "1 = 2": "without variables"}
        for text, words in said.items():
            assert words in pretrained.trust(packed, Equation.parse(text))
        packed.best.write_bytes(packed.best.read_bytes() + b"0")
        assert_raises(CheckpointError, "has changed since it was packed", pretrained.open_run, None)
    finally:
        pretrained.card.cache_clear()


def test_variables_are_renamed_to_known_ones():
    model = pretrained.load(pretrained.DEFAULT)
    names = model.known_names(Equation.parse("(q + b)**2 + pi = x*q"))
    assert names == {"q": "x", "b": "y", "x": "z"}
    assert str(Equation.parse("q + b = x*q").with_variables(names)) == "x + y = z*x"
    assert not model.known_names(Equation.parse("x + u = y"))
    assert not model.known_names(Equation.parse("a + b + c + d = t + v"))
    assert model.score("θ + 1 = first") == model.score("x + 1 = y")  # as `verify` does
    assert_raises(DataError, "Symbol 'd'", model.score, "a + b + c + d = t + v")


@pytest.mark.parametrize(("file", "name_of_list"), [(pack.TEXTBOOK, "textbook"), (pack.CONSTANTS, "constants")])
def test_a_list_is_what_it_says_and_how_many_a_model_gets_right(file, name_of_list, record_property):
    examples = list(formats.read(file))
    assert [example.label for example in examples] == [1, 0] * 50 and len({str(e.equation) for e in examples}) == 100
    for example in examples:
        assert judge(example.equation).verdict == ("holds" if example.label else "refuted"), example.equation
        assert file == pack.TEXTBOOK or "Symbol" not in example.equation.names
    for name in pretrained.pretrained():
        right = pack.right_about(pretrained.load(name), file)
        note = f"{name}: {right['right']} of 100 equations of {file.name}, {right['identities']} of the 50 true ones"
        record_property("note", note)
        assert right == pretrained.card(name)[name_of_list]


@pytest.mark.slow
def test_two_processes_give_the_bytes_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "PART", 2 * evaluation.BATCH)
    for name, jobs in (("one", 1), ("two", 2)):
        shutil.copytree(pretrained.FOLDER / "tree_smu", tmp_path / name)
        rows = evaluation.evaluate(Run.open(tmp_path / name), "bundled:quickstart/validation", jobs=jobs)
        assert len(rows) > 2 * evaluation.PART
    (one,), (two,) = (sorted((tmp_path / name / "records").glob("validation*")) for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
