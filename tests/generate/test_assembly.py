from collections import Counter

import numpy as np
import pytest

from dgl_treestack.expression import Equation
from dgl_treestack.generate.assembly import FEATURES, Assembly, PlanCell, balanced, difference

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


def locations(assembly, cell):
    return [(part, row) for part, rows in assembly.chosen[cell].items() for row in rows]


SMALL = PlanCell(0, "validation", 3)
FIVE = [((2 * i, 2 * i + 1), ()) for i in range(5)]
GATES = {
    "no key twice in any fold or block": (
        {"a": [((1, 2), ()), ((3, 4), ())], "b": [((5, 4), ()), ((6, 7), ())], "c": [((8, 1), ()), ((9, 10), ())]},
        [({TEST: ["a"], TRAIN: ["b"]}, {TEST: 9, TRAIN: 9}), ({DEEP: ["c"]}, {DEEP: 9})],
        {TEST: [("a", 0), ("a", 1)], TRAIN: [("b", 1)], DEEP: [("c", 1)]},
        {("duplicate", 5): 2},
    ),
    "no training pair with a side of an evaluation equation": (
        {"a": [((1, 2), (50, 51))], "b": [((3, 4), (51,)), ((5, 6), (52,))]},
        [({TEST: ["a"], TRAIN: ["b"]}, {TEST: 9, TRAIN: 9})],
        {TEST: [("a", 0)], TRAIN: [("b", 1)]},
        {("side of an evaluation equation", 5): 1},
    ),
    "sides of small evaluation equations are free": (
        {"a": [((1, 2), (50,))], "b": [((3, 4), (50,))]},
        [({SMALL: ["a"], TRAIN: ["b"]}, {SMALL: 9, TRAIN: 9})],
        {SMALL: [("a", 0)], TRAIN: [("b", 0)]},
        {},
    ),
    "none planned": ({"a": FIVE}, [({TRAIN: ["a"]}, {TRAIN: 0})], {TRAIN: []}, {("more than planned", 5): 5}),
    "two planned": ({"a": FIVE}, [({TRAIN: ["a"]}, {TRAIN: 2})], {TRAIN: [("a", 0), ("a", 1)]}, {("more than planned", 5): 3}),
    "a cell without parts is empty": ({}, [({}, {TRAIN: 4})], {TRAIN: []}, {}),
}


@pytest.mark.parametrize("name", GATES)
def test_gates(name):
    parts, blocks, chosen, dropped = GATES[name]
    assembly = Assembly(Parts(**parts), 0, {})
    for block, (names, plan) in enumerate(blocks):
        assembly.add(block, names, plan)
    assert {cell: locations(assembly, cell) for cell in assembly.chosen} == chosen and assembly.dropped == dropped
    assert assembly.raw_pairs.total() == sum(map(len, parts.values()))


def test_what_leaks_is_dropped_and_counted():
    class Leaky(Parts):
        def rows(self, name):
            for i, row in enumerate(super().rows(name)):
                yield {**row, "difference": [[7], [1.0 if i % 10 else -1.0]]}

    assembly = Assembly(Leaky(a=[((2 * i, 2 * i + 1), ()) for i in range(500)]), 0, {})
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
        matched, crossed = (
            Equation.parse(f"{first}(a{below}(x)) + {second}(a{other}(y)) = {i}")
            for below, other in ((first, second), (second, first))
        )
        pairs.append((matched, crossed) if rng.random() < 0.8 else (crossed, matched))
    return pairs


def leak(pairs):
    """How many true members have f over its own inverse, in per cent."""
    return 100 * np.mean([true.names[3] == f"a{true.names[2]}" for true, _ in pairs])


def differences(pairs):
    features = [difference(*pair) for pair in pairs]
    return [(np.array([*row], np.int32), np.array([*row.values()], np.float32)) for row in features]


def test_resampling_removes_a_planted_leak_and_pairs_that_do_not_leak_stay():
    pairs = leaky_pairs()
    indices = balanced(differences(pairs), [0] * len(pairs), np.random.default_rng(0), tolerance=1.0)
    assert leak(pairs) > 75 and 0.2 * len(pairs) < len(indices) < 0.6 * len(pairs)
    assert 44 < leak([pairs[i] for i in indices]) < 56
    pairs = [pair if i % 2 else pair[::-1] for i, pair in enumerate(pairs)]
    assert len(balanced(differences(pairs), [0] * len(pairs), np.random.default_rng(0))) > 0.85 * len(pairs)


def test_small_groups_stay_whole_and_a_pair_and_its_mirror_image_differ_by_a_sign():
    rows = differences(leaky_pairs(30))
    assert balanced(rows, [0] * 30, np.random.default_rng(0)).tolist() == list(range(30))
    assert balanced([], [], np.random.default_rng(0)).tolist() == []
    for true, false in leaky_pairs(20):
        forward, backward = difference(true, false), difference(false, true)
        assert forward == {name: -value for name, value in backward.items()}
        assert all(0 <= name < FEATURES and value for name, value in forward.items())
