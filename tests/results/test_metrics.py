"""Metrics, and differences between models: intervals and p-values against formulas and enumeration."""

import itertools
import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from tables import table_of

from dgl_treestack.errors import DataError
from dgl_treestack.results.metrics import calibration_error, clusters, pair_accuracy
from dgl_treestack.results.report import answers, difference, holm


def record(number, label, score, pair=None):
    return {"id": f"e{number}", "label": label, "score": score, "correct": (score > 0) == bool(label), "depth": 3, "pair": pair}


def test_the_true_member_of_a_pair_has_the_higher_score():
    rows = [record(0, 1, -1.0, "a"), record(1, 0, -2.0, "a"), record(2, 1, 0.5, "b"), record(3, 0, 0.5, "b")]
    assert pair_accuracy(table_of(rows)) == 75.0, "a is right though both are called false; b is a tie"
    assert pair_accuracy(table_of([*rows, record(4, 1, 3.0, "c"), record(5, 1, 9.0)])) == 75.0, "no partner, no pair"
    assert math.isnan(pair_accuracy(table_of([record(0, 1, 1.0)])))


def test_calibration_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    probability = rng.random(2000)
    label = (rng.random(2000) < probability**2).astype(int)
    rows = [record(i, int(y), float(np.log(p / (1 - p)))) for i, (p, y) in enumerate(zip(probability, label, strict=True))]
    observed, predicted = calibration_curve(label, probability, n_bins=10)
    counts, _ = np.histogram(probability, 10, (0, 1))
    expected = 100 * (np.abs(observed - predicted) * counts).sum() / 2000
    assert calibration_error(table_of(rows)) == pytest.approx(expected) and 10 < expected < 25
    assert calibration_error(table_of([record(i, 1, 50.0) for i in range(5)])) == pytest.approx(0, abs=1e-7)
    assert math.isnan(calibration_error(table_of([record(0, None, 1.0)])))


def test_neighbours_and_silhouette_of_two_classes():
    """Two bundles of directions, one member of each nearer to the other; a class of four does not count."""
    angles = {"a": [0, 1, 2, 3, 4, 80], "b": [90, 91, 92, 93, 94, 20], "few": [180, 181, 182, 183]}
    directions = ((name, math.radians(angle)) for name, of_class in angles.items() for angle in of_class)
    rows = [{"id": name, "class": name, "text": "", "h": [math.cos(at), math.sin(at)]} for name, at in directions]
    measured = clusters(table_of(rows))
    assert measured["agreement"] == pytest.approx(100 * 10 / 12), "all but the two that stray"
    assert measured["chance"] == pytest.approx(100 * 2 * 6 * 5 / (12 * 11))
    assert 30 < measured["silhouette"] < 80
    assert clusters(table_of([row for row in rows if row["class"] == "a"])) == {}


def model(right, pairs=0, family=0):
    """Answers by seed of a model. right: seed -> a verdict per equation. pairs: how many of the equations form pairs of two.
    family: how many equations a family has, 0 for none."""

    def row(i, verdict):
        of_family = {"family": f"f{i // family}"} if family else {}
        return {"id": f"e{i}", "correct": verdict, "pair": f"p{i // 2}" if i < pairs else None, **of_family}

    return {seed: answers(table_of([row(*item) for item in enumerate(verdicts)])) for seed, verdicts in right.items()}


def compare(first, second, **groups):
    return difference(model(first, **groups), model(second, **groups), np.random.default_rng(0))


def test_a_clear_difference_and_none_and_pairs_and_families_count_once():
    good, bad = [True] * 90 + [False] * 10, [True] * 60 + [False] * 40
    clear = compare({0: good, 1: good[1:] + good[:1]}, {0: bad, 1: [*bad[1:], False]})
    assert clear["points"] == pytest.approx(30.5) and clear["p, equations"] < 0.001 and clear["p, seeds"] is not None
    same = compare({0: good}, {0: good[::-1]})
    assert same["points"] == 0 and same["p, equations"] > 0.5 and same["p, seeds"] is None
    # Two members of a pair that go wrong together are one observation, so they say less; ten of a family say nothing
    good, bad = [True] * 100, [False] * 8 + [True] * 92
    alone, paired = (compare({0: good}, {0: bad}, pairs=pairs) for pairs in (0, 100))
    assert alone["points"] == paired["points"] and alone["p, equations"] < 0.02 < 0.1 < paired["p, equations"]
    alone, together = (compare({0: good}, {0: [False] * 10 + [True] * 90}, family=family) for family in (0, 10))
    assert (alone["p, equations"] < 0.01, alone["permuted"], alone["groups"]) == (True, "records", 100)
    assert (together["p, equations"], together["permuted"], together["groups"]) == (1.0, "families", 10)


def test_records_are_matched_by_file_and_id():
    """Whatever their order, those with an answer; different equations are refused."""
    rows = [{"id": str(i), "correct": i % 3 > 0, "file": name} for name in ("a.tsv", "b.tsv") for i in range(30)]
    shuffled = [*rows[::-1], {**rows[0], "id": "e99", "correct": None}]
    first, second = ({0: answers(table_of(given))} for given in (rows, shuffled))
    gap = difference(first, second, np.random.default_rng(0))
    assert (gap["points"], gap["p, equations"], gap["groups"]) == (0, 1.0, 60)
    with pytest.raises(DataError, match="different equations"):
        compare({0: [True] * 3}, {0: [True] * 4})


def test_the_interval_is_that_of_the_paired_test_and_holm_corrects_p_values():
    def gap(*counts, equations=100):
        return compare(*({i: [True] * n + [False] * (equations - n) for i, n in enumerate(right)} for right in counts))

    gaps = np.subtract((90, 88, 91), (80, 81, 79))
    half = 4.302653 * gaps.std(ddof=1) / np.sqrt(3)  # the t-distribution with two degrees of freedom
    assert gap((90, 88, 91), (80, 81, 79))["interval"] == pytest.approx((gaps.mean() - half, gaps.mean() + half))
    assert gap([90], [80])["interval"] is None
    equal = gap((2711, 2650), (2001, 1940), equations=3000)  # differences that are equal but for rounding
    assert equal["p, seeds"] is None and equal["interval"] is None and equal["points"] == pytest.approx(100 * 710 / 3000)
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []


def test_chance_is_that_of_all_signs():
    """The p-value of few gaps, of two sizes and both signs, against the exact test over all assignments of signs."""
    first = {0: [True] * 9 + [False] * 2, 1: [True] * 6 + [False] * 5}
    second = {0: [False] * 7 + [True] * 4, 1: [False] * 4 + [True] * 7}
    gaps = [(a + b - c - d) / 2 for a, b, c, d in zip(*first.values(), *second.values(), strict=True)]
    sums = [abs(sum(s * g for s, g in zip(signs, gaps, strict=True))) for signs in itertools.product((-1, 1), repeat=len(gaps))]
    exact = sum(total >= abs(sum(gaps)) - 1e-9 for total in sums) / len(sums)
    assert 0.01 < exact < 0.9
    assert compare(first, second)["p, equations"] == pytest.approx(exact, abs=0.02)
