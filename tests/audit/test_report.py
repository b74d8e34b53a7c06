import json
from collections import Counter

import pytest
from each_case import assert_raises

from dgl_treestack import Equation, Example
from dgl_treestack.audit.corpus import build
from dgl_treestack.audit.explanation import describe as describe_one
from dgl_treestack.audit.explanation import explain, number
from dgl_treestack.audit.leakage import Fit
from dgl_treestack.audit.report import TOGETHER, audit, describe
from dgl_treestack.cli import audit as command
from dgl_treestack.data import formats
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.truth.points import fresh

TEXTS = [("x + y = y + x", 1), ("x = x + 1", 0), ("sqrt(x**2) = x", 1), ("1/0 = 1/0", 1), ("x = y", 1), ("sin(x) = 2", None)]


@pytest.fixture
def file(tmp_path):
    formats.write(tmp_path / "a.jsonl", [Example(Equation.parse(text), label, text) for text, label in TEXTS])
    return str(tmp_path / "a.jsonl")


@pytest.fixture
def pairs(tmp_path):
    """60 pairs that the tokens give away."""
    examples = [
        Example(Equation.parse(f"{name}(x) + {i} = {i} + sin(x)"), label, f"{i}{label}", pair=str(i))
        for i in range(1, 61)
        for name, label in (("sin", 1), ("cos", 0))
    ]
    formats.write(tmp_path / "pairs.jsonl", examples)
    return str(tmp_path / "pairs.jsonl")


ROUNDED = ["cos(0.6) = 0.83", "0.83 = cos(0.6)", "tan(0.03) = 0.03", "cos(2.1) = -0.50", "cos(2.1) = 0.505*(-1)"]
ROUNDED += ["-0.5 = cos(2.1)", "cos(2.1) = -0.50484610459985745", "1/3 = 0.3333333333333333333333333333", "pi = 3.14"]
ROUNDED += ["sin(0.00012) = 1.2e-4", "cos(0.6) = .8", "0.5*cos(0.6) + 1.2 = 1.61"]
NOT_ROUNDED = ["cos(0.6) = 0.82"]  # cut off
NOT_ROUNDED += ["tan(0.03) = 0", "exp(1.1) = 3.", "0.5 = 0.51", "0.5 = -0.51", "(-1)**10*5 = 0.5", "0.5 + 1 = 0.7*2"]
NOT_ROUNDED += ["exp(9) = 8.1e3", "cos(x) = 0.83", "cos(0.6) + x = 0.83 + x"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_equation_that_holds_when_rounded_is_counted_apart(tmp_path, jobs, capsys):
    examples = [Example(Equation.parse(text), 1, text) for text in (*ROUNDED, *NOT_ROUNDED)]
    examples += [Example(Equation.parse(ROUNDED[0]), label, str(label)) for label in (0, None)]
    name = str(tmp_path / "n.jsonl")
    formats.write(name, examples)
    report = audit([name], leakage=False, duplicates=False, jobs=jobs)
    audited = report["sets"][name]
    assert audited["contradicted"] == NOT_ROUNDED
    counts = Counter()
    for row in audited["verdicts"]:
        counts[row["label"]] += row["equal when rounded"]
    assert counts == {1: len(ROUNDED), 0: 1, None: 1}
    assert sum(row["refuted"] for row in audited["verdicts"]) == len(examples)
    text = describe(report)
    assert f"\n{len(NOT_ROUNDED)} labels are contradicted: {NOT_ROUNDED[0]}, " in text
    assert f"\n{len(ROUNDED)} labels are right when rounded: the sides differ, by half of the last decimal" in text
    assert "neither confirmed" not in text
    certificate = {"rounded": 2}  # as the generator writes it
    certified = [("sin(0.5) = 0.48", 1), ("sin(0.5) = 0.6", 0), ("sin(0.5) = 0.49", 1), ("0.5*0.25 = 0.13", 0)]  # half a unit
    certified += [("1/0 = 0.1", 0), ("1/0 = 0.2", 1), ("sin(x) = 0.48", 0), ("x + y = y + x", 1)]
    formats.write(name, [Example(Equation.parse(text), label, text, certificate=certificate) for text, label in certified])
    assert audit([name], leakage=False)["sets"][name]["contradicted"] == ["sin(0.5) = 0.49", "0.5*0.25 = 0.13"]
    formats.write(name, [examples[0], examples[-2]])
    assert command.audit((name,), leakage=False) == 0
    shown = capsys.readouterr().out
    assert "No label is contradicted.\n1 label is right when rounded: " in shown


def test_verdicts_by_depth_and_label(file):
    audited = audit([file])["sets"][file]
    assert audited["equations"] == 6 and audited["contradicted"] == ["x = y"]
    rows = {(row["depth"], row["label"]): row for row in audited["verdicts"]}
    assert list(rows) == [(1, 1), (2, 1), (2, 0), (2, None), (3, 1)]
    assert (rows[2, 1]["holds"], rows[2, 1]["undefined"], rows[2, 1]["equations"]) == (1, 1, 2)
    assert rows[2, 0]["refuted"] == rows[2, None]["refuted"] == rows[1, 1]["refuted"] == rows[3, 1]["conditional"] == 1


def test_screen_and_json(file, pairs, capsys):
    assert command.audit((file, pairs), leakage=False, json=True) == 1, "a label is contradicted"
    assert json.loads(capsys.readouterr().out) == audit([file, pairs], leakage=False)
    report = audit([file, pairs], fit=Fit(baselines=("tokens",)))
    text = describe(report)
    assert "1 label is contradicted: x = y\n" in text and "No label is contradicted." in text
    assert "depth 1-2: not measured, 3 correct and 1 incorrect equations; 20 of each are needed" in text
    (line,) = [line for line in text.splitlines() if line.startswith("3-4    ")]
    assert line.split() == ["3-4", "120", "50.0", "100.0", "±", "0.0*"]
    assert "a.jsonl      pairs.jsonl" in text  # the overlap, without folders
    assert max(map(len, text.splitlines())) <= 128


def test_costly_parts_can_be_left_out_and_a_sample_is_announced(file, pairs):
    report = audit([file], verdicts=False, duplicates=False, leakage=False)
    assert set(report["sets"][file]) == {"equations", "verdicts", "contradicted"} and report["overlap"] == []
    assert "not judged" in describe(report) and "holds" not in describe(report)
    text = describe(audit([pairs], verdicts=False, duplicates=False, fit=Fit(sample=80, baselines=("tokens",))))
    assert "a sample of 80 of 120 equations (--sample 80; 0 for all)" in text


def test_files_together_are_one_set_for_any_number_of_processes_and_formats_are_alike(file, pairs, tmp_path):
    report = audit([file, pairs], together=True, leakage=False, jobs=2)
    (audited,) = report["sets"].values()
    assert audited is report["sets"][TOGETHER]
    assert audited["equations"] == 126 and audited["contradicted"] == [f"{file}:x = y"]
    assert len(report["overlap"]) == 2 and report == audit([file, pairs], together=True, leakage=False)
    theirs, unnamed = str(tmp_path / "theirs.json.gz"), str(tmp_path / "unnamed.jsonl")
    formats.write(theirs, formats.read(file))
    formats.write(unnamed, [Example(Equation.parse("x = y"), 1)])
    first, second, third = (audit([name], leakage=False)["sets"][name] for name in (file, theirs, unnamed))
    assert second == {**first, "contradicted": ["1-0"]} and third["contradicted"] == [f"{unnamed}:1"]


def test_options_that_make_no_sense():
    for names, options, message in (
        ([], {}, "at least one file"),
        (["a.jsonl", "a.jsonl"], {}, "given twice"),
        (["a.jsonl"], {"fit": Fit(sample=-1)}, "The sample is -1"),
        (["a.jsonl"], {"fit": Fit(jobs=0)}, "number of jobs is 0"),
    ):
        assert_raises(ConfigurationError, message, audit, names, **options)


@pytest.mark.parametrize("jobs", [1, 2])
def test_files_that_cannot_be_audited(tmp_path, jobs):
    for line, message in (
        ("", "no equations in the file"),
        ('{"label": 1, "text": "x + 1"}', "a.jsonl:1: Only equations can be audited; 'Add'"),
        ('{"label": 1, "text": "x + _ = 1"}', "a.jsonl:1: Node 3 is a blank"),
    ):
        (tmp_path / "a.jsonl").write_text(line)
        assert_raises(DataError, message, audit, [str(tmp_path / "a.jsonl")], fit=Fit(jobs=jobs))


def test_a_chain_of_depth_twenty_thousand():
    chain = Equation.from_prefix("Equality " + "sin " * 20_000 + "Symbol:x Symbol:y")
    corpus = build([("deep", [Example(chain, 0, "chain")])], keys=True)
    assert corpus["depth"].tolist() == [20_001]


STEPS = [["start", "same", "sin(x) = sin(x)"], ["both", "Add", "y", 1], ["rewrite", "ring:1>", 1, 0]]
DERIVED = {"verdict": "holds", "derivation": STEPS}
TRUE = Example(Equation.parse("sin(x) + y = y + sin(x)"), 1, "t", certificate=DERIVED, source="a.jsonl:1")
FALSE = Example(Equation.parse("x = x + 1"), 0, "f", certificate={"verdict": "refuted", "style": "swap"}, source="a.jsonl:2")


def test_a_refuted_equation_has_a_witness_that_can_be_checked():
    explanation = explain(FALSE)
    assert (explanation["verdict"], explanation["contradicted"]) == ("refuted", False)
    x = fresh(FALSE.equation).of("x")[explanation["witness"]["point"]]
    assert explanation["witness"]["variables"] == {"x": number(x)}
    assert (explanation["witness"]["left"], explanation["witness"]["right"]) == (number(x), number(x + 1))
    text = describe_one(explanation)
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
        assert statement in describe_one(explain(Example(Equation.parse(text), label, "a"))), text


def test_a_derivation_is_replayed_step_by_step():
    explanation = explain(TRUE)
    equations = ["sin(x) = sin(x)", "sin(x) + y = sin(x) + y", str(TRUE.equation)]
    assert [step["equation"] for step in explanation["derivation"]] == equations
    text = describe_one(explanation)
    steps = "    0  t = t\n       sin(x) = sin(x)\n    1  Add with y on both sides\n       sin(x) + y = sin(x) + y"
    assert steps in text and "witness" not in text
    assert text.endswith("x + y -> y + x (ring:1) on the right: sin(x) + y\n       sin(x) + y = y + sin(x)")
    changed = Example(Equation.parse("y + sin(x) = sin(x) + y"), 1, "t", certificate=TRUE.certificate, source="a.jsonl:1")
    assert_raises(DataError, r"a\.jsonl:1: The derivation of 't' leads to", explain, changed)


def test_numbers_are_written_for_people():
    texts = {3 + 0j: "3", 0.25 - 2j: "0.25 - 2 i", 1j: "1 i", -2.5j: "-2.5 i", -1 + 1e-9j: "-1 + 1e-09 i", 0j: "0"}
    assert {value: number(value) for value in texts} == texts


def test_by_id_in_every_file_that_has_it(tmp_path, capsys):
    names = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.json")]
    formats.write(names[0], [TRUE, Example(Equation.parse("x = y"), 1, "0-0")])
    formats.write(names[1], [Example(Equation.parse("sin(x) = sin(x)"), 1)])
    assert command.audit(names, explain="t") == 0
    assert command.audit(names, explain="0-0", json=True) == 1
    (explanation,) = json.loads(capsys.readouterr().out.split("y + sin(x)\n")[-1])
    assert explanation["contradicted"] is True
    assert command.audit(names, explain=f"{names[0]}:2") == 1  # by line
    with pytest.raises(DataError, match=r"No equation has the id 'u'. The first ids are 't', '0-0', '2-0'"):
        command.audit(names, explain="u")
