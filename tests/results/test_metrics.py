import itertools
import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from dgl_treestack.errors import DataError
from dgl_treestack.results.metrics import calibration, clusters, difference, holm, pair_accuracy


def record(number, label, score, pair=""):
    correct = (score > 0) == bool(label)
    return {"id": f"e{number}", "label": label, "score": score, "correct": correct, "depth": 3, "pair": pair}


def test_the_true_member_of_a_pair_has_the_higher_score():
    rows = [record(0, 1, -1.0, "a"), record(1, 0, -2.0, "a"), record(2, 1, 0.5, "b"), record(3, 0, 0.5, "b")]
    assert pair_accuracy(rows) == 75.0, "a is right though both are called false; b is a tie"
    assert pair_accuracy([*rows, record(4, 1, 3.0, "c"), record(5, 1, 9.0)]) == 75.0, "no partner, no pair"
    assert math.isnan(pair_accuracy([record(0, 1, 1.0)]))


def test_calibration_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    probability = rng.random(2000)
    label = (rng.random(2000) < probability**2).astype(int)
    rows = [record(i, int(y), float(np.log(p / (1 - p)))) for i, (p, y) in enumerate(zip(probability, label, strict=True))]
    ours = calibration(rows)
    observed, predicted = calibration_curve(label, probability, n_bins=10)
    assert np.allclose(ours.observed, observed) and np.allclose(ours.predicted, predicted) and sum(ours.equations) == 2000
    assert 0.1 < ours.error < 0.25
    assert calibration([record(i, 1, 50.0) for i in range(5)]).error == pytest.approx(0, abs=1e-9)
    with pytest.raises(DataError, match="no labelled scores"):
        calibration([])


def model(right, pairs=0):
    """Records by seed of a model. right: seed -> a verdict per equation. pairs: how many of the equations form pairs of two."""
    return {
        seed: [record(i, 1, 1.0 if verdict else -1.0, f"p{i // 2}" if i < pairs else "") for i, verdict in enumerate(verdicts)]
        for seed, verdicts in right.items()
    }


def test_a_clear_difference_and_none():
    generator = np.random.default_rng(0)
    good, bad = [True] * 90 + [False] * 10, [True] * 60 + [False] * 40
    clear = difference(model({0: good, 1: good[1:] + good[:1]}), model({0: bad, 1: [*bad[1:], False]}), generator)
    assert clear.points == pytest.approx(30.5) and clear.equations < 0.001 and clear.seeds is not None
    same = difference(model({0: good}), model({0: good[::-1]}), generator)
    assert same.points == 0 and same.equations > 0.5 and same.seeds is None


def test_a_pair_counts_once():
    """Two members of a pair that go wrong together are one observation, so they say less."""
    good, bad = [True] * 100, [False] * 8 + [True] * 92
    alone = difference(model({0: good}), model({0: bad}), np.random.default_rng(0))
    paired = difference(model({0: good}, 100), model({0: bad}, 100), np.random.default_rng(0))
    assert alone.points == paired.points and alone.equations < 0.02 < 0.1 < paired.equations


def test_a_family_counts_once():
    """Ten equations of one family that go wrong together are one observation, and say nothing."""
    first, second = model({0: [True] * 100}), model({0: [False] * 10 + [True] * 90})
    assert difference(first, second, np.random.default_rng(0)).equations < 0.01
    for rows in (first[0], second[0]):
        for i, row in enumerate(rows):
            row["family"] = f"f{i // 10}"
    assert difference(first, second, np.random.default_rng(0)).equations == 1.0


def test_the_interval_is_that_of_the_paired_test():
    right = {"first": (90, 88, 91), "second": (80, 81, 79)}
    first, second = (model({i: [True] * n + [False] * (100 - n) for i, n in enumerate(right[name])}) for name in right)
    gap = difference(first, second, np.random.default_rng(0))
    gaps = np.subtract(right["first"], right["second"])
    half = 4.302653 * gaps.std(ddof=1) / np.sqrt(3)  # the t-distribution with two degrees of freedom
    assert gap.interval == pytest.approx((gaps.mean() - half, gaps.mean() + half))
    assert difference({0: first[0]}, {0: second[0]}, np.random.default_rng(0)).interval is None


def test_holm():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []


def test_different_equations_are_refused():
    with pytest.raises(DataError, match="different equations"):
        difference(model({0: [True] * 3}), model({0: [True] * 4}), np.random.default_rng(0))


def test_chance_is_that_of_all_signs():
    """The p-value of few gaps, of two sizes and both signs, against the exact test over all assignments of signs."""
    verdicts = (
        {0: [True] * 9 + [False] * 2, 1: [True] * 6 + [False] * 5},
        {0: [False] * 7 + [True] * 4, 1: [False] * 4 + [True] * 7},
    )
    first, second = (model(right) for right in verdicts)
    gaps = [(a + b - c - d) / 2 for a, b, c, d in zip(*verdicts[0].values(), *verdicts[1].values(), strict=True)]
    sums = [abs(sum(s * g for s, g in zip(signs, gaps, strict=True))) for signs in itertools.product((-1, 1), repeat=len(gaps))]
    exact = sum(total >= abs(sum(gaps)) - 1e-9 for total in sums) / len(sums)
    assert 0.01 < exact < 0.9
    assert difference(first, second, np.random.default_rng(0)).equations == pytest.approx(exact, abs=0.02)


def test_neighbours_and_silhouette_of_two_classes():
    """Two bundles of directions, one member of each nearer to the other; a class of four does not count."""
    angles = {"a": [0, 1, 2, 3, 4, 80], "b": [90, 91, 92, 93, 94, 20], "few": [180, 181, 182, 183]}
    rows = [
        {"class": name, "h": [math.cos(math.radians(angle)), math.sin(math.radians(angle))]}
        for name, angles_of_class in angles.items()
        for angle in angles_of_class
    ]
    measured = clusters(rows)
    assert (measured.expressions, measured.classes) == (12, 2)
    assert measured.agreement == pytest.approx(100 * 10 / 12), "all but the two that stray"
    assert measured.chance == pytest.approx(100 * 2 * 6 * 5 / (12 * 11))
    assert 0.3 < measured.silhouette < 0.8
    assert clusters([row for row in rows if row["class"] == "a"]).classes == 1
