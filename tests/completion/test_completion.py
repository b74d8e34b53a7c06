"""Scores of candidates are those of the filled equations, ranks those found by counting; files of blanks."""

import gzip
import json
import random
import shutil

import numpy as np
import pytest
import torch
from each_case import assert_raises
from every_cell import VOCABULARY, every_engine
from hypothesis import given
from hypothesis import strategies as st
from released import every_checkpoint
from trees import random_equation

from dgl_treestack import Equation, Example, Expression, Model
from dgl_treestack.completion import questions, records, scoring
from dgl_treestack.completion.scoring import blank_graphs, fill, rank, scores, small_expressions
from dgl_treestack.data import formats
from dgl_treestack.errors import ConfigurationError, DataError, ExpressionError, VocabularyError
from dgl_treestack.resources import find_data
from dgl_treestack.results.metrics import top
from dgl_treestack.runs import pretrained
from dgl_treestack.runs.import_authors import import_checkpoint

CANDIDATES = [Expression.parse(text) for text in ("x", "2", "sin(x)", "x + 2", "sin(2)*x", "Float(1.29)", "x", "1")]


def make(name="tree_smu", tasks=("verification",)):
    return Model.build(name, 5, VOCABULARY, tasks, seed=2).double().eval()


def random_blanks(count=12):
    """Random equations, every depth of a blank down to whole sides."""
    rng = random.Random(5)
    trees = [random_equation(rng, rng.randrange(1, 6)) for _ in range(count)]
    return [(tree, rng.randrange(1, tree.size)) for tree in trees] + [(trees[0], 1), (trees[1], trees[1].ends[1])]


@every_engine
@pytest.mark.parametrize("name", ["tree_smu", "mtree_lstm", "tree_lstm_child_sum"])
def test_scores_are_those_of_the_filled_equations(name, engine, monkeypatch):
    model, blanks = make(name), random_blanks()
    rows = list(scores(model, blanks, CANDIDATES, engine=engine))
    monkeypatch.setattr(scoring, "MOST_NODES", 40)
    assert np.allclose(rows, list(scores(model, blanks, CANDIDATES, engine=engine)), rtol=1e-12), "graphs are cut by size"
    assert len(rows) == len(blanks) and all(row[0] == row[-2] != row[-1] for row in rows), "equal candidates are tied"
    for (tree, blank), row in zip(blanks, rows, strict=True):
        filled = [Example(tree.replace(blank, candidate), id=str(i)) for i, candidate in enumerate(CANDIDATES)]
        with torch.no_grad():
            expected = model(model.prepare(filled).batch(np.arange(len(filled)))).numpy()
        assert np.allclose(row, expected, rtol=1e-10, atol=1e-10)


def test_only_what_lies_above_a_blank_is_there_once_per_candidate():
    tree = Equation.parse("cos(x*y)*exp(_ + x*y) = cos(x*y)")
    (blank,) = tree.blanks
    filled = [(tree.replace(blank, CANDIDATES[0]), blank)]
    ((batch, sides, _),) = blank_graphs(filled, CANDIDATES, VOCABULARY, max_nodes=10**6)
    fillers, repeated, above = {"x", "2", "sin(x)", "x + 2", "sin(2)", "sin(2)*x", "1.29", "1"}, {"y", "x*y", "cos(x*y)"}, 3
    assert batch.num_nodes() == len(fillers | repeated) + above * 7
    assert sides.shape == (1, 7, 2) and len(set(sides[0, :, 0])) == 7 and len(set(sides[0, :, 1])) == 1


def test_a_deep_equation_needs_no_recursion():
    tree = Expression(("sin",) * 3000 + ("Symbol",), (None,) * 3000 + ("x",), (1,) * 3000 + (0,))
    model, equation = make("tree_rnn"), Equation.of(tree, Expression.leaf("Symbol", "y"))
    (row,) = scores(model, [(equation, 3001)], CANDIDATES[:3])
    assert np.isfinite(row).all()


def test_models_that_do_not_verify_and_unknown_leaves():
    with pytest.raises(ConfigurationError, match="function_evaluation; blanks are filled by one for verification"):
        next(scores(make(tasks=("function_evaluation",)), random_blanks(), CANDIDATES))
    with pytest.raises(VocabularyError, match="no row for Symbol"):
        next(scores(make(), random_blanks(), [Expression.leaf("Symbol", "unheard")]))


def test_choices_are_distinct_and_shallow():
    candidates = small_expressions(["x", "y"], VOCABULARY)
    assert len(set(candidates)) == len(candidates) > 1000
    assert {*map(str, candidates)} >= {"x", "0", "sin(x)", "x + y", "x**2", "cos(y)**2", "1/tan(x)", "-sin(x)"}
    assert max(candidate.depth for candidate in candidates) == 2
    assert not any("var_9" in candidate.texts for candidate in candidates)


def test_ranks():
    ranks = rank(np.array([9.0, 1.0, 2.0, 3.0, 8.0]), ["a", "b", "b", "c", "d"], 2, {"b", "c"}, {"a"})  # a is doubtful
    assert ranks == {"raw": 3, "class": 2, "collapse": 2, "best": 4, "chance": 3 / 4}


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), min_size=1, max_size=12), st.data())
def test_ranks_by_counting(candidates, data):
    """raw: who is better, or equal and earlier. class: the best rank in the class. collapse: better classes."""
    scores, classes = np.array([s for s, _ in candidates], float), [c for _, c in candidates]
    truth = data.draw(st.integers(0, len(classes) - 1))
    raw = {i: 1 + sum((scores[j], -j) > (scores[i], -i) for j in range(len(classes))) for i in range(len(classes))}
    best = {c: min(raw[i] for i in raw if classes[i] == c) for c in set(classes)}
    ranks = rank(scores, classes, truth, {classes[truth]})
    best_right = best[classes[truth]]
    assert (ranks["raw"], ranks["class"], raw[ranks["best"]]) == (raw[truth], best_right, 1)
    assert ranks["collapse"] == 1 + sum(first < best_right for c, first in best.items() if c != classes[truth])


@pytest.mark.slow
@every_checkpoint
def test_ranks_of_the_released_checkpoints(authors, checkpoint, tmp_path):
    """Every fortieth blank, for time; all: `treestack complete BLANKS --candidates CLASSES --run RUN --precision float64`."""
    model = import_checkpoint(authors / "checkpoints" / f"{checkpoint}.checkpoint", tmp_path).load_model(torch.float64)
    with gzip.open(authors / "goldens" / f"completion_ranks_{checkpoint}.json.gz") as file:
        goldens = {(row[0], f"{row[2]}-{row[1]}"): tuple(row[3:]) for row in json.load(file)["rows"]}
    asked = []
    for number in range(7):
        path = authors / "blanks" / f"40k_test_blank_{number}.json.gz"
        (group,) = questions.read(path, authors / "candidate_classes.json.gz")
        asked += [(number, question) for question in group.questions]
    assert len(asked) == len(goldens) == 1939
    rows = scores(model, [question.blank for _, question in asked[::40]], group.candidates)
    for (number, question), row in zip(asked[::40], rows, strict=True):
        ranks = rank(row, group.classes, question.truth, question.right)
        # the goldens were made in float32, which takes scores as close as this for equal
        tied = (abs(row - row[question.truth]) < 2e-6).sum() > 1
        assert tuple(ranks[kind] for kind in records.KINDS) == goldens[number, question.example.id] or tied, question.example.id


FILLERS = [("x", "c0"), ("-x", "c1"), ("2", "c2"), ("1 + 1", "c2"), ("sin(x)", "c3")]


@pytest.fixture
def model():
    return make("tree_lstm").float()


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
    (group,) = questions.read(folder / "blanks.jsonl")
    assert [question.right for question in group.questions] == [{"c0", "c1"}, {"c2"}]
    blanks = records.fill(model, [group])
    rows = blanks.rows(named=True)
    assert [(row["id"], row["answer"]) for row in rows] == [("b0", "x"), ("b1", "2")]
    for row in rows:
        assert 1 <= row["collapse"] <= row["class"] <= row["raw"] <= 5 and row["correct"] == (row["class"] == 1)
    assert rows[0]["raw"] <= 4, "the doubtful one is left out"
    assert [row["chance"] for row in rows] == [2 / 4, 2 / 5], "of the classes of FILLERS"
    assert [row["constant"] for row in rows] == [1, 0], "c0 fills as many blanks as any"
    of_depth, of_all = records.shares(blanks)
    assert (of_depth["depth"], of_all["depth"], of_all["blanks"]) == (2, "all", 2)
    for kind in records.KINDS:
        assert of_all[f"{kind} top-5"] == top(blanks, kind, 5) == 100
        assert of_all[f"{kind} top-1"] == 50 * (blanks[kind] == 1).sum()


@pytest.mark.slow
def test_two_processes_give_the_records_of_one(monkeypatch, tmp_path):
    monkeypatch.setattr(records, "PART", 4)
    bundled = find_data("bundled:quickstart/blanks")
    shutil.copy(bundled.with_name("candidates.jsonl.gz"), tmp_path)
    (tmp_path / "blanks.jsonl").write_bytes(b"".join(gzip.decompress(bundled.read_bytes()).splitlines(keepends=True)[:12]))
    run, blanks = pretrained.open_run(None), str(tmp_path / "blanks.jsonl")
    rows = records.evaluate(run, blanks, jobs=2)
    assert len(rows) == 12 and rows.equals(records.evaluate(run, blanks))


def test_broken_files_are_named_with_their_line(folder):
    broken = folder / "broken.jsonl"
    for change, message in (
        ({"blank": None}, "It has no blank"),
        ({"blank": 0}, "What was blanked, x\\*\\*2 = x\\*x, is not among the candidates of candidates.jsonl.gz"),
        ({"certificate": {"right": ["c3"]}}, "The class of what was blanked, 'c0', is not among the right ones"),
        ({"certificate": {"right": "c0"}}, "'right' in the certificate is 'c0'; it must be a list of class names"),
        ({"certificate": {"candidates": "others.jsonl"}}, "Its candidates, 'others.jsonl', are not a file beside it"),
    ):
        line = {"id": "b", "label": 1, "text": "x**2 = x*x", "blank": 2, **change}
        broken.write_text(json.dumps({k: v for k, v in line.items() if v is not None}) + "\n")
        assert_raises(DataError, rf"broken.jsonl.*{message}", questions.read, broken)
    for text, missing in (('{"text": "x"}\n', "The expression has no value class"), ("", "no candidates")):
        broken.write_text(text)
        assert_raises(DataError, missing, questions.read_candidates, broken)


def test_one_blank_of_an_equation(folder, model):
    answers = fill(model, Equation.parse("2*_ = x + x"), folder / "candidates.jsonl.gz", top=5)
    assert [answer["score"] for answer in answers] == sorted((a["score"] for a in answers), reverse=True)
    verdicts = {answer["filler"]: answer["verdict"] for answer in answers}
    assert verdicts == {text: "holds" if text == "x" else "refuted" for text, _ in FILLERS}
    assert any("y" in answer["filler"] for answer in fill(model, Equation.parse("y + _ = 2*y"), top=2000))
    for text in ("x = y", "_ + _ = x"):
        assert_raises(ExpressionError, "one is asked for", fill, model, Equation.parse(text))
