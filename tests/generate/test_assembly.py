from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from dgl_treestack.expression import Equation
from dgl_treestack.generate.assembly import Assembly, PlanCell, balanced
from dgl_treestack.generate.features import FEATURES, difference

TRAIN, TEST, DEEP = PlanCell(0, "train", 5), PlanCell(0, "test", 5), PlanCell(1, "train", 5)


class Parts:
    """Parts in memory: name -> (keys, sides) per pair."""

    def __init__(self, **rows):
        self._rows = rows

    def names(self):
        return sorted(self._rows)

    def rows(self, name):
        for keys, sides in self._rows[name]:
            yield {"keys": [f"{k:04x}" for k in keys], "sides": [f"{s:04x}" for s in sides], "difference": [[1], [1.0]]}


def assembled(parts, *blocks):
    assembly = Assembly(Parts(**parts), 0, 1.5, {})
    for block, (names, plan) in enumerate(blocks):
        assembly.add(block, names, plan)
    return assembly


def locations(assembly, cell):
    return [(part, row) for part, rows in assembly.chosen[cell].items() for row in rows]


def test_no_key_twice_in_any_fold_or_block():
    assembly = assembled(
        {"a": [((1, 2), ()), ((3, 4), ())], "b": [((5, 4), ()), ((6, 7), ())], "c": [((8, 1), ()), ((9, 10), ())]},
        ({TEST: ["a"], TRAIN: ["b"]}, {TEST: 9, TRAIN: 9}),
        ({DEEP: ["c"]}, {DEEP: 9}),
    )
    assert [locations(assembly, cell) for cell in (TEST, TRAIN, DEEP)] == [[("a", 0), ("a", 1)], [("b", 1)], [("c", 1)]]
    assert assembly.dropped == {("duplicate", 5): 2} and assembly.raw_pairs == {TEST: 2, TRAIN: 2, DEEP: 2}


def test_no_training_pair_with_a_side_of_an_evaluation_equation():
    assembly = assembled(
        {"a": [((1, 2), (50, 51))], "b": [((3, 4), (51,)), ((5, 6), (52,))]},
        ({TEST: ["a"], TRAIN: ["b"]}, {TEST: 9, TRAIN: 9}),
    )
    assert locations(assembly, TRAIN) == [("b", 1)]
    assert assembly.dropped == {("side of an evaluation equation", 5): 1}


def test_sides_of_small_evaluation_equations_are_free():
    small = PlanCell(0, "validation", 3)
    parts = {"a": [((1, 2), (50,))], "b": [((3, 4), (50,))]}
    assert locations(assembled(parts, ({small: ["a"], TRAIN: ["b"]}, {small: 9, TRAIN: 9})), TRAIN) == [("b", 0)]


@pytest.mark.parametrize("planned", [0, 1, 3])
def test_no_more_than_planned(planned):
    rows = [((2 * i, 2 * i + 1), ()) for i in range(5)]
    assembly = assembled({"a": rows}, ({TRAIN: ["a"]}, {TRAIN: planned}))
    assert locations(assembly, TRAIN) == [("a", i) for i in range(planned)]
    assert assembly.dropped == {("more than planned", 5): 5 - planned}


def test_a_cell_without_parts_is_empty():
    assert assembled({}, ({}, {TRAIN: 4})).chosen == {TRAIN: {}}


def test_what_leaks_is_dropped_and_counted():
    class Leaky(Parts):
        def rows(self, name):
            for i, row in enumerate(super().rows(name)):
                yield {**row, "difference": [[7], [1.0 if i % 10 else -1.0]]}

    assembly = Assembly(Leaky(a=[((2 * i, 2 * i + 1), ()) for i in range(500)]), 0, 1.5, {})
    assembly.add(0, {TRAIN: ["a"]}, {TRAIN: 500})
    signs = Counter(row % 10 > 0 for _, row in locations(assembly, TRAIN))
    assert signs[False] == 50 and 50 <= signs[True] <= 75 + 8
    assert assembly.dropped["balance", 5] == 500 - sum(signs.values())


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
