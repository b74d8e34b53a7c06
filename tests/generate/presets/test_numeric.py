"""Labels are computed again from the text, by the independent checker; simple models find nothing to exploit."""

from collections import Counter

import independent_checker as checker
import numpy as np
import pytest
from plain_features import shape, token_counts
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from dgl_treestack.generate.assembly import side_difference
from dgl_treestack.generate.presets import SetOptions, numeric
from dgl_treestack.generate.presets.numeric import UNARY, evaluate, evaluations, number, spelt
from dgl_treestack.generate.production import produce
from dgl_treestack.tasks.function_evaluation import TASK


@pytest.fixture
def examples(made):
    return made("numeric").examples


def kind(example):
    return example.family.partition("-")[0]


def values(*sides):
    """The values of expressions without variables, in 60 digits."""
    return [checker.value_at(side, {}) for side in sides]


def sides(example):
    return example.equation.left, example.equation.right


def test_every_label_is_right_and_function_evaluation_takes_what_is_true(examples):
    task = TASK(4)
    for example in examples:
        left, right = values(*sides(example))
        error, is_rounded = abs(left - right), "rounded" in example.certificate
        assert error <= (0.0050001 if is_rounded else 1e-25) if example.label else error >= 0.0499999
        if is_rounded:
            assert abs(error - example.certificate["error"]) < 1e-5 and "verdict" not in example.certificate
        else:
            assert example.certificate["verdict"] == ("holds" if example.label else "refuted")
        assert task.accepts(example) == (example.label == 1)
        assert not example.label or abs(task.prepare(example).target) <= 3.14


def test_labels_are_balanced_per_kind_and_depth_and_in_pairs(examples):
    for group in (kind, lambda example: example.equation.depth, lambda example: (kind(example), example.fold)):
        counts = Counter((group(example), example.label) for example in examples)
        assert all(counts[cell, 1] == counts[cell, 0] for cell, _ in counts)
    assert {kind(example) for example in examples} == {*UNARY, "Add", "Mul", "Pow", "decimal"}
    assert abs(len(examples) - 1600) < 0.08 * 1600
    pairs = {}
    for example in examples:
        pairs.setdefault(example.pair, []).append((example.label, example.equation.depth, example.family))
    for members in pairs.values():
        labels, depths, families = zip(*members, strict=True)
        assert (sorted(labels), len(set(depths)), len(set(families))) == ([0, 1], 1, 1)
    errors = [example.certificate["error"] for example in examples if example.label == 0 and "rounded" in example.certificate]
    assert 0.25 < np.mean([error <= 0.31 for error in errors]) < 0.85, "near misses, and far ones"


def test_a_family_and_an_evaluation_are_in_one_fold(examples):
    folds = {}
    for example in examples:
        (expression,) = (side for side in sides(example) if not is_number(side))
        for identity in (example.family, expression.prefix()):
            assert folds.setdefault(identity, example.fold) == example.fold
    shares = Counter(example.fold for example in examples)
    assert shares["train"] > 0.75 * len(examples) and min(shares.values()) > 0.03 * len(examples)


def is_number(side):
    return {*side.names} <= {"Mul", "NegativeOne", "Number"} and side.size < 4 and side.names.count("Number") == 1


def with_digits(equation):
    """Tokens, and which digit stands where in a number."""
    counts = Counter(token_counts(equation))
    for name, text in zip(equation.names, equation.texts, strict=True):
        if name == "Number":
            counts.update(f"{place}:{digit}" for place, digit in enumerate(text))
    return counts


def numbers(equation):
    """Argument and result of an evaluation, without its function, and the size."""
    actual = sorted((equation.left, equation.right), key=lambda side: any(name in UNARY for name in side.names))
    y, x = map(float, values(*(side.subtree(1) if side.names[0] in UNARY else side for side in actual)))
    return {"x": x, "y": y, "|x|": abs(x), "|y|": abs(y), "x < 0": x < 0, "y < 0": y < 0, "size": equation.size, "x - y": x - y}


@pytest.mark.parametrize("features", [token_counts, with_digits, side_difference, shape, numbers])
def test_there_is_nothing_to_exploit(examples, features):
    if features is numbers:
        examples = [example for example in examples if kind(example) in UNARY]
    rows = DictVectorizer(dtype=np.float32).fit_transform([features(example.equation) for example in examples])
    labels = np.array([example.label for example in examples])
    model = RandomForestClassifier(60, min_samples_leaf=5, random_state=0)
    if features in (token_counts, with_digits):
        model = LogisticRegression(C=0.1, solver="liblinear", max_iter=300)
    hits = np.zeros(len(labels), bool)
    for train, test in GroupKFold(5).split(rows, labels, [example.family for example in examples]):
        hits[test] = model.fit(rows[train], labels[train]).predict(rows[test]) == labels[test]
    assert hits.mean() <= 0.53 + 2 * 0.5 / len(labels) ** 0.5


def test_what_falls_short_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(numeric, "KINDS", ("asech",))
    notes = produce("numeric", SetOptions(seed=4, equations=16000), tmp_path)["notes"]
    assert notes["fell short"]["asech"]["wanted"] == 320 and notes["fell short"]["asech"]["made"] < 184


def test_rounding_and_its_limits_and_spelt_numbers():
    assert evaluate("sin", 50).result == 48 and evaluate("sin", 0).result == 0
    assert evaluate("acosh", 50) is None and evaluate("csc", 0) is None and evaluate("exp", 314) is None
    assert evaluate("Mul", 5, 10) is None  # 0.005 is a tie
    assert all(abs(actual.value - actual.result / 100) <= 0.005 for name in ("tan", "asech") for actual in evaluations(name))
    for hundredths in (129, 100, 7, 310, -250, 111, -1):
        for bits in range(256):
            order = [bool(bits >> i & 1) for i in range(8)]
            first, second = values(spelt(hundredths, order), number(hundredths, order[0]))
            assert abs(first - second) < 1e-50 and first == pytest.approx(hundredths / 100, rel=1e-15)
