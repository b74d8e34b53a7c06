import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from dgl_treestack.expression import Equation
from dgl_treestack.generate.assembly import balanced
from dgl_treestack.generate.features import FEATURES, difference

FUNCTIONS = ("sin", "cos", "tan", "sinh", "cosh", "tanh")


def leaky_pairs(count: int = 600, seed: int = 0) -> list[tuple[Equation, Equation]]:
    """Pairs with the same tokens whose true member has f over its own inverse in four cases of five, the false in one."""
    rng, pairs = np.random.default_rng(seed), []
    for i in range(count):
        first, second = rng.permutation(FUNCTIONS)[:2]
        matched = f"{first}(a{first}(x)) + {second}(a{second}(y)) = {i}"
        crossed = f"{first}(a{second}(x)) + {second}(a{first}(y)) = {i}"
        true, false = (matched, crossed) if rng.random() < 0.8 else (crossed, matched)
        pairs.append((Equation.parse(true), Equation.parse(false)))
    return pairs


def differences(pairs):
    features = [difference(*pair) for pair in pairs]
    return [(np.array([*row], np.int32), np.array([*row.values()], np.float32)) for row in features]


def leak(pairs: list[tuple[Equation, Equation]]) -> float:
    """How often a linear model of local features, fitted to other pairs, picks the true member."""
    names = sorted({name for pair in pairs for name in difference(*pair)})
    rows = np.array([[difference(*pair).get(name, 0.0) for name in names] for pair in pairs])
    signs = np.where(np.arange(len(pairs)) % 2, 1, -1)
    return 100 * cross_val_score(LogisticRegression(fit_intercept=False), rows * signs[:, None], signs, cv=5).mean()


@pytest.mark.slow
def test_resampling_removes_a_planted_leak():
    pairs = leaky_pairs()
    indices = balanced(differences(pairs), [0] * len(pairs), np.random.default_rng(0), tolerance=1.0)
    assert leak(pairs) > 75
    assert 0.2 * len(pairs) < len(indices) < 0.6 * len(pairs)
    assert leak([pairs[i] for i in indices]) < 56


def test_pairs_that_do_not_leak_stay():
    pairs = [pair if i % 2 else pair[::-1] for i, pair in enumerate(leaky_pairs())]
    assert len(balanced(differences(pairs), [0] * len(pairs), np.random.default_rng(0))) > 0.85 * len(pairs)


def test_the_kept_indices_are_ordered_and_reproducible():
    rows = differences(leaky_pairs(200))
    first, again = (balanced(rows, [i % 2 for i in range(200)], np.random.default_rng(5)).tolist() for _ in range(2))
    assert first == again == sorted(set(first))


def test_small_groups_stay_whole_and_no_pairs_are_no_pairs():
    rows = differences(leaky_pairs(30))
    assert balanced(rows, [0] * 30, np.random.default_rng(0)).tolist() == list(range(30))
    assert balanced([], [], np.random.default_rng(0)).tolist() == []


def test_a_pair_and_its_mirror_image_differ_by_a_sign():
    for true, false in leaky_pairs(20):
        forward, backward = difference(true, false), difference(false, true)
        assert forward == {name: -value for name, value in backward.items()}
        assert all(0 <= name < FEATURES and value for name, value in forward.items())
