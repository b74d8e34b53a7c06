import json

import pytest

from dgl_treestack import Equation, Example
from dgl_treestack.audit.explanation import describe, explain, number
from dgl_treestack.cli.audit import audit
from dgl_treestack.data import formats
from dgl_treestack.errors import DataError
from dgl_treestack.truth.points import fresh

STEPS = [["start", "same", "sin(x) = sin(x)"], ["both", "Add", "y", 1], ["rewrite", "ring:1>", 1, 0]]
TRUE = Example(
    Equation.parse("sin(x) + y = y + sin(x)"), 1, "t", certificate={"verdict": "holds", "derivation": STEPS}, source="a.jsonl:1"
)
FALSE = Example(Equation.parse("x = x + 1"), 0, "f", certificate={"verdict": "refuted", "style": "swap"}, source="a.jsonl:2")


def test_a_refuted_equation_has_a_witness_that_can_be_checked():
    explanation = explain(FALSE)
    assert (explanation["verdict"], explanation["contradicted"]) == ("refuted", False)
    x = fresh(FALSE.equation).of("x")[explanation["witness"]["point"]]
    assert explanation["witness"]["variables"] == {"x": number(x)}
    assert (explanation["witness"]["left"], explanation["witness"]["right"]) == (number(x), number(x + 1))
    text = describe(explanation)
    assert f"  x          = {number(x)}\n  left side  = {number(x)}\n  right side = {number(x + 1)}" in text
    assert "the verdict agrees with the label" in text
    assert text.startswith("a.jsonl:2: f\n  x = x + 1\n") and "made by     swap" in text and "derivation" not in text


def test_what_verdict_and_label_are_together():
    for text, label, statement in (
        ("x = y", 1, "the verdict CONTRADICTS the label"),
        ("sqrt(x**2) = x", 1, "decides nothing"),
        ("x = y", None, "there is no label"),
        ("cos(0.6) = 0.83", 1, "the sides differ, by half of the last decimal that is written at most"),
    ):
        assert statement in describe(explain(Example(Equation.parse(text), label, "a"))), text


def test_a_derivation_is_replayed_step_by_step():
    explanation = explain(TRUE)
    equations = ["sin(x) = sin(x)", "sin(x) + y = sin(x) + y", str(TRUE.equation)]
    assert [step["equation"] for step in explanation["derivation"]] == equations
    text = describe(explanation)
    assert (
        "    0  t = t\n       sin(x) = sin(x)\n    1  Add with y on both sides\n       sin(x) + y = sin(x) + y" in text
        and "witness" not in text
    )
    assert text.endswith("x + y -> y + x (ring:1) on the right: sin(x) + y\n       sin(x) + y = y + sin(x)")
    changed = Example(Equation.parse("y + sin(x) = sin(x) + y"), 1, "t", certificate=TRUE.certificate, source="a.jsonl:1")
    with pytest.raises(DataError, match=r"a\.jsonl:1: The derivation of 't' leads to"):
        explain(changed)


def test_numbers_are_written_for_people():
    texts = {3 + 0j: "3", 0.25 - 2j: "0.25 - 2 i", 1j: "1 i", -2.5j: "-2.5 i", -1 + 1e-9j: "-1 + 1e-09 i", 0j: "0"}
    assert {value: number(value) for value in texts} == texts


def test_by_id_in_every_file_that_has_it(tmp_path, capsys):
    names = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.json")]
    formats.write(names[0], [TRUE, Example(Equation.parse("x = y"), 1, "0-0")])
    formats.write(names[1], [Example(Equation.parse("sin(x) = sin(x)"), 1)])
    assert audit(names, explain="t") == 0
    assert audit(names, explain="0-0", json=True) == 1
    (explanation,) = json.loads(capsys.readouterr().out.split("y + sin(x)\n")[-1])
    assert explanation["contradicted"] is True
    assert audit(names, explain=f"{names[0]}:2") == 1  # by line
    with pytest.raises(DataError, match=r"No equation has the id 'u'. The first ids are 't', '0-0', '2-0'"):
        audit(names, explain="u")
