import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from tables import table_of

from dgl_treestack.results.metrics import calibration_error, clusters, pair_accuracy


def record(number, label, score, pair=None):
    correct = (score > 0) == bool(label)
    return {"id": f"e{number}", "label": label, "score": score, "correct": correct, "depth": 3, "pair": pair}


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
    rows = [
        {"id": name, "class": name, "text": "", "h": [math.cos(math.radians(angle)), math.sin(math.radians(angle))]}
        for name, angles_of_class in angles.items()
        for angle in angles_of_class
    ]
    measured = clusters(table_of(rows))
    assert measured["agreement"] == pytest.approx(100 * 10 / 12), "all but the two that stray"
    assert measured["chance"] == pytest.approx(100 * 2 * 6 * 5 / (12 * 11))
    assert 0.3 < measured["silhouette"] < 0.8
    of_one_class = clusters(table_of([row for row in rows if row["class"] == "a"]))
    assert all(math.isnan(value) for value in of_one_class.values())
