"""Files of blanks: ours, the authors', and broken ones."""

import gzip
import json
import shutil

import pytest
import torch
from every_cell import VOCABULARY

from dgl_treestack.completion import questions, records
from dgl_treestack.completion.records import KINDS, shares
from dgl_treestack.completion.scoring import fill
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data
from dgl_treestack.results.metrics import top
from dgl_treestack.runs import pretrained

FILLERS = [("x", "c0"), ("-x", "c1"), ("2", "c2"), ("1 + 1", "c2"), ("sin(x)", "c3")]


@pytest.fixture
def model():
    model = Model.build("tree_lstm", 5, VOCABULARY, ["verification"])
    model.reset_parameters(torch.Generator().manual_seed(3))
    return model.eval()


@pytest.fixture
def folder(tmp_path):
    """Two blanks; to the first, two classes are right and one is doubtful."""
    candidates = [Example(Expression.parse(text), None, f"k{i}", value_class=name) for i, (text, name) in enumerate(FILLERS)]
    formats.write(tmp_path / "candidates.jsonl.gz", candidates)
    square, double = Equation.parse("x**2 = x*x"), Equation.parse("x + x = 2*x")
    certificate = {"verdict": "holds", "right": ["c0", "c1"], "doubtful": ["c3"]}
    blanks = [Example(square, 1, "b0", certificate=certificate, blank=2), Example(double, 1, "b1", blank=5)]
    formats.write(tmp_path / "blanks.jsonl", blanks)
    return tmp_path


def test_a_record_per_blank(folder, model):
    rows = records.fill(model, questions.read(folder / "blanks.jsonl")).rows(named=True)
    assert [row["id"] for row in rows] == ["b0", "b1"]
    assert [row["answer"] for row in rows] == ["x", "2"]
    for row in rows:
        assert 1 <= row["collapse"] <= row["class"] <= row["raw"] <= 5 and row["correct"] == (row["class"] == 1)
    assert rows[0]["raw"] <= 4, "the doubtful one is left out"
    names = [name for _, name in FILLERS if name != "c3"]
    assert rows[0]["chance"] == sum(name in ("c0", "c1") for name in names) / len(names)
    assert rows[1]["chance"] == [name for _, name in FILLERS].count("c2") / len(FILLERS)
    assert [row["constant"] for row in rows] == [1, 0], "c0 fills as many blanks as any"
    ((_, asked),) = questions.read(folder / "blanks.jsonl")
    assert asked[0].right == {"c0", "c1"} and asked[1].right == {"c2"}


@pytest.mark.slow
def test_two_processes_give_the_records_of_one(monkeypatch, tmp_path):
    monkeypatch.setattr(records, "PART", 4)
    bundled = find_data("bundled:quickstart/blanks")
    shutil.copy(bundled.with_name("candidates.jsonl.gz"), tmp_path)
    (tmp_path / "blanks.jsonl").write_bytes(b"".join(gzip.decompress(bundled.read_bytes()).splitlines(keepends=True)[:12]))
    run, blanks = pretrained.open_run(None), str(tmp_path / "blanks.jsonl")
    rows = records.evaluate(run, blanks, jobs=2)
    assert len(rows) == 12 and rows.equals(records.evaluate(run, blanks))


def test_shares_by_depth(folder, model):
    blanks = records.fill(model, questions.read(folder / "blanks.jsonl"))
    rows = list(shares(blanks))
    assert [row["depth"] for row in rows] == [2, "all"] and rows[-1]["blanks"] == 2
    for kind in KINDS:
        assert rows[-1][f"{kind} top-5"] == top(blanks, kind, 5) == 100
        assert rows[-1][f"{kind} top-1"] == 50 * (blanks[kind] == 1).sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blank": None}, "It has no blank"),
        ({"blank": 0}, "What was blanked, x\\*\\*2 = x\\*x, is not among the candidates of candidates.jsonl.gz"),
        ({"certificate": {"right": ["c3"]}}, "The class of what was blanked, 'c0', is not among the right ones"),
        ({"certificate": {"right": "c0"}}, "'right' in the certificate is 'c0'; it must be a list of class names"),
        ({"certificate": {"candidates": "others.jsonl"}}, "Its candidates, others.jsonl, are not beside it"),
    ],
)
def test_broken_files_are_named_with_their_line(folder, change, message):
    line = {"id": "b", "label": 1, "text": "x**2 = x*x", "blank": 2, **change}
    (folder / "broken.jsonl").write_text(json.dumps({k: v for k, v in line.items() if v is not None}) + "\n")
    with pytest.raises(DataError, match=message) as error:
        questions.read(folder / "broken.jsonl")
    assert "broken.jsonl" in str(error.value)


def test_candidates_without_classes(folder):
    formats.write(folder / "plain.jsonl", [Example(Expression.parse("x"), None, "k")])
    with pytest.raises(DataError, match="The candidate has no value class"):
        questions.read_candidates(folder / "plain.jsonl")
    (folder / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="no candidates"):
        questions.read_candidates(folder / "empty.jsonl")


def test_one_blank_of_an_equation(folder, model):
    answers = fill(model, Equation.parse("2*_ = x + x"), folder / "candidates.jsonl.gz", top=5)
    assert [answer["score"] for answer in answers] == sorted((a["score"] for a in answers), reverse=True)
    verdicts = {answer["filler"]: answer["verdict"] for answer in answers}
    assert verdicts == {"x": "holds", "-x": "refuted", "2": "refuted", "1 + 1": "refuted", "sin(x)": "refuted"}
    assert any("y" in answer["filler"] for answer in fill(model, Equation.parse("y + _ = 2*y"), top=2000))
    for text in ("x = y", "_ + _ = x"):
        with pytest.raises(ExpressionError, match="one is asked for"):
            fill(model, Equation.parse(text))
