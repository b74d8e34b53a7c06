from functools import partial

import numpy as np
import plain_features
import pytest
from each_case import cases
from sklearn.ensemble import RandomForestClassifier

from dgl_treestack import Equation, Example
from dgl_treestack.audit import leakage as module
from dgl_treestack.audit.corpus import EquationTable, build
from dgl_treestack.audit.leakage import BASELINES, Fit, measure, sampled
from dgl_treestack.generate import assembly

ALL = ((0, None),)


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """Forests of twenty trees and twenty steps of boosting, for time; the planted leaks are easy to see."""
    monkeypatch.setattr(module, "TREES", 20)
    for name, settings in module._BOOSTINGS.items():
        monkeypatch.setitem(module._BOOSTINGS, name, {**settings, "max_iter": 20, "learning_rate": 0.3})


def corpus(examples) -> EquationTable:
    return build([("made up", examples)])


def examples(true: str, false: str, count: int = 60) -> list[Example]:
    """Pairs of two patterns with a number in them, so that no two equations are equal."""
    texts = [(pattern.format(i), label) for i in range(count) for pattern, label in ((true, 1), (false, 0))]
    return [Example(Equation.parse(text), label, str(n), pair=str(n // 2)) for n, (text, label) in enumerate(texts)]


def flipped(examples, flips):
    """The same pairs, some with their labels exchanged."""
    return [Example(e.equation, e.label ^ int(flips[int(e.pair)]), e.id, pair=e.pair) for e in examples]


def leakage(examples, *names, **fit):
    equations = corpus(examples)
    return measure(equations, np.arange(len(equations)), Fit(baselines=names or tuple(BASELINES), **{"groups": ALL, **fit}))


@cases(
    ("sin(x) = {}", "cos(x) = {}", "tokens", "size and depth"),
    ("sin(cos(x)) = {}", "cos(sin(x)) = {}", "parent-child pairs", "tokens"),
    ("sin(x) = cos(x)*{}", "sin(x)*cos(x) = {}", "side differences", "tokens"),
    ("x + x = x*{}", "x + x*x = {}", "size and depth", "tokens"),
    ("sin(cos(x)) = {}", "cos(sin(x)) = {}", "boosting on all", "side differences"),
)
def test_a_planted_leak_is_found_by_the_baseline_that_can_see_it(true, false, seen_by, blind):
    (row,) = leakage(examples(true, false), seen_by, blind)
    assert (row["equations"], row["used"], row["majority"]) == (120, 120, 50)
    assert row["baselines"][seen_by]["accuracy"] > 95 and row["baselines"][seen_by]["above"]
    assert row["baselines"][blind]["accuracy"] < 60 and not row["baselines"][blind]["above"]


def test_labels_without_a_pattern_are_at_chance_which_is_the_commoner_label():
    rng = np.random.default_rng(0)
    (row,) = leakage(flipped(examples("sin({}*x) = y", "cos({}*x) = y", 100), rng.random(100) < 0.5))
    for score in row["baselines"].values():
        assert score["accuracy"] == pytest.approx(50, abs=10)
        p = score["accuracy"] / 100
        assert score["standard_error"] == pytest.approx(100 * np.sqrt(p * (1 - p) / 200), abs=0.01)
    (row,) = leakage([e for e in examples("sin({}*x) = y", "sin(x*{}) = y") if e.label == 1 or int(e.pair) < 30], "tokens")
    assert row["majority"] == pytest.approx(100 * 60 / 90, abs=0.01) and not row["baselines"]["tokens"]["above"]


def test_members_of_a_pair_are_never_on_both_sides():
    """The token that gives a pair away says the opposite in every other pair: only a divided pair could use it."""
    pairs = examples("sin(v{}) = x", "sin(v{}) = y")
    (row,) = leakage(flipped(pairs, np.arange(60) % 2), "tokens", "boosting on all")
    assert all(score["accuracy"] <= 60 for score in row["baselines"].values())


def test_groups_are_fitted_apart_and_small_ones_are_named(capsys):
    shallow, deep = examples("x = {}", "{} = x", 20), examples("sin(sin(x)) = {}", "{} = sin(sin(x))", 20)
    mixed = shallow + [Example(e.equation, e.label, "d" + e.id, pair="d" + e.pair) for e in deep]
    mixed.append(Example(Equation.parse("sin(sin(sin(sin(sin(x))))) = x"), 1, "lonely"))
    equations = corpus(mixed)
    rows = measure(equations, np.arange(len(equations)), Fit(baselines=("size and depth",)), "leakage")
    assert "| 0/20 " in capsys.readouterr().err, "two groups, five parts, two settings"
    assert [row["depths"] for row in rows] == ["1-2", "3-4", "5-7"]
    assert rows[2]["skipped"].startswith("1 correct and 0 incorrect")
    assert rows[1]["baselines"]["size and depth"]["accuracy"] == 100  # which side is deeper
    assert rows[0]["baselines"]["size and depth"]["accuracy"] <= 60


def test_a_sample_has_whole_pairs_and_is_always_the_same():
    equations = corpus(examples("x = {}", "{} = x"))
    rows = sampled(equations, np.arange(120), 51)
    assert len(rows) == 50 and set(np.bincount(equations["pair"][rows])) == {0, 2}
    assert rows.tolist() == sorted(rows) == sampled(equations, np.arange(120), 51).tolist()
    assert len(sampled(equations, np.arange(120), 0)) == len(sampled(equations, np.arange(120), 120)) == 120
    (row,) = leakage(examples("x = {}", "{} = x"), "tokens", sample=60)
    assert (row["equations"], row["used"]) == (120, 60)
    assert leakage([Example(Equation.parse("x = y"), None, "a")]) == [], "without labels, no groups"


@cases(
    (module.token_counts, plain_features.token_counts),
    (module.pair_counts, assembly.pair_counts),
    (module.side_differences, assembly.side_difference),
    (partial(module.columns, names=module.SHAPE), plain_features.shape),
)
def test_matrices_count_what_the_features_of_the_generator_count(matrix, of_one_expression):
    texts = ["sin(x) + x = 2*x", "x = y", "x**2 + y*sin(x + 1) = log(x, 2)", "2*(x + y) = 2*x + 2*y"]
    equations = corpus(Example(Equation.parse(text), 1, text) for text in texts)
    rows = np.array([3, 0, 2])
    expected = [sorted(v for v in of_one_expression(Equation.parse(texts[row])).values() if v) for row in rows]
    assert [sorted(row[row != 0].tolist()) for row in matrix(equations, rows).toarray()] == expected


def test_a_dense_matrix_keeps_the_fullest_columns(monkeypatch):
    monkeypatch.setattr(module, "MAX_DENSE", 2)
    equations = corpus(Example(Equation.parse(text), 1, text) for text in ("x + y = x", "sin(x) = x"))
    baseline = module.Baseline("tokens", (module.token_counts,), RandomForestClassifier, {})
    assert baseline.features(equations, np.arange(2)).tolist() == [[1, 2], [1, 2]]  # = and x
