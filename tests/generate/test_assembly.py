from collections import Counter

import pytest

from dgl_treestack.generate.assembly import Assembler, Cell

TRAIN, TEST, DEEP = Cell(0, "train", 5), Cell(0, "test", 5), Cell(1, "train", 5)


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
    assembler = Assembler(Parts(**parts), seed=0, tolerance=1.5)
    for block, (names, plan) in enumerate(blocks):
        assembler.add(block, names, plan)
    return assembler.result


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
    small = Cell(0, "validation", 3)
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

    assembler = Assembler(Leaky(a=[((2 * i, 2 * i + 1), ()) for i in range(500)]), seed=0, tolerance=1.5)
    assembler.add(0, {TRAIN: ["a"]}, {TRAIN: 500})
    signs = Counter(row % 10 > 0 for _, row in locations(assembler.result, TRAIN))
    assert signs[False] == 50 and 50 <= signs[True] <= 75 + 8
    assert assembler.result.dropped["balance", 5] == 500 - sum(signs.values())
