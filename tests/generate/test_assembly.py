from collections import Counter

import numpy as np
import pytest
from each_case import cases
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.assembly import FEATURES, Assembly, PlanCell, balanced, difference
from dgl_treestack.generate.folds import canonical_key, fold_of, key_of
from dgl_treestack.generate.nodes import Pool

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


@cases(
    (  # no key twice in any fold or block
        {"a": [((1, 2), ()), ((3, 4), ())], "b": [((5, 4), ()), ((6, 7), ())], "c": [((8, 1), ()), ((9, 10), ())]},
        [({TEST: ["a"], TRAIN: ["b"]}, {TEST: 9, TRAIN: 9}), ({DEEP: ["c"]}, {DEEP: 9})],
        {TEST: [("a", 0), ("a", 1)], TRAIN: [("b", 1)], DEEP: [("c", 1)]},
        {("duplicate", 5): 2},
    ),
    (  # no training pair with a side of an evaluation equation
        {"a": [((1, 2), (50, 51))], "b": [((3, 4), (51,)), ((5, 6), (52,))]},
        [({TEST: ["a"], TRAIN: ["b"]}, {TEST: 9, TRAIN: 9})],
        {TEST: [("a", 0)], TRAIN: [("b", 1)]},
        {("side of an evaluation equation", 5): 1},
    ),
    (  # sides of small evaluation equations are free
        {"a": [((1, 2), (50,))], "b": [((3, 4), (50,))]},
        [({SMALL: ["a"], TRAIN: ["b"]}, {SMALL: 9, TRAIN: 9})],
        {SMALL: [("a", 0)], TRAIN: [("b", 0)]},
        {},
    ),
    ({"a": FIVE}, [({TRAIN: ["a"]}, {TRAIN: 0})], {TRAIN: []}, {("more than planned", 5): 5}),
    ({"a": FIVE}, [({TRAIN: ["a"]}, {TRAIN: 2})], {TRAIN: [("a", 0), ("a", 1)]}, {("more than planned", 5): 3}),
    ({}, [({}, {TRAIN: 4})], {TRAIN: []}, {}),
)
def test_gates(parts, blocks, chosen, dropped):
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
        pattern = f"{first}(a{{}}(x)) + {second}(a{{}}(y)) = {i}"
        matched, crossed = (Equation.parse(pattern.format(*below)) for below in ((first, second), (second, first)))
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


def test_small_groups_stay_whole_and_mirror_images_differ_by_a_sign():
    rows = differences(leaky_pairs(30))
    assert balanced(rows, [0] * 30, np.random.default_rng(0)).tolist() == list(range(30))
    assert balanced([], [], np.random.default_rng(0)).tolist() == []
    for true, false in leaky_pairs(20):
        forward, backward = difference(true, false), difference(false, true)
        assert forward == {name: -value for name, value in backward.items()}
        assert all(0 <= name < FEATURES and value for name, value in forward.items())


SAME = [("x + 1 = y", "u + 1 = w"), ("x + (y + z) = 2", "(z + x) + y = 2"), ("x*(y*z) = (x + y)*z", "(y + x)*z = z*y*x")]
SAME += [("x + one = half", "x + 1 = Rational(1/2)"), ("0.5*x = 1", "x*half = 1"), ("0 + 0 = x", "x = 0")]
SAME += [("(x + 0)**1 = one*(0 + sin(y)) + 0", "x = sin(y)"), ("(x + y)*1 + z = 1", "x + (y + z) = 1**1")]
SAME += [("(1*1)*(1*one) = x", "x = 1"), ("a + (b*c)**d = tan(f)", "g + (h*i)**j = tan(k)")]
DIFFERENT = [("x = y", "x = x"), ("x**y = 1", "x**x = 1"), ("x**2 = y", "2**x = y"), ("x + y*z = 1", "(x + y)*z = 1")]
DIFFERENT += [("sin(x) = cos(y)", "sin(x) = cos(x)"), ("x + 1 = 2", "x + 2 = 1"), ("log(x, y) = 1", "log(y, x) = x")]
DIFFERENT += [("x + pi = 1", "x + E = 1"), ("x + y + x = 1", "x + y + y + x = 1"), ("x*0 = x", "x = x")]


@pytest.mark.parametrize(("first", "second"), [*SAME, *DIFFERENT])
def test_the_same_equations_and_no_others_have_one_key(first, second):
    is_same = canonical_key(Equation.parse(first)) == canonical_key(Equation.parse(second))
    assert is_same == ((first, second) in SAME)


def test_a_key_never_changes_and_a_tree_may_be_deep():
    assert canonical_key(Equation.parse("sin(x)**2 + cos(x)**2 = 1")) == "b9ae8640d833b30f272d"
    depth = 20_000
    names = ("Equality", *["Add"] * depth, *["Symbol"] * (depth + 2))
    deep = Expression(names, (*[None] * (depth + 1), *["x"] * (depth + 2)), (*[2] * (depth + 1), *[0] * (depth + 2)))
    assert len(canonical_key(deep)) == 20


def test_families_fall_into_folds_by_their_shares():
    shares = {"train": 3.0, "test": 1.0}
    folds = Counter(fold_of(f"family {i}", shares) for i in range(4000))
    assert folds["train"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert fold_of("family 1", shares) == fold_of("family 1", {"train": 6.0, "test": 2.0})


LEAVES = ("x", "y", "z", "0", "1", "one", "2", "half", "pi")
TREES = st.recursive(
    st.sampled_from(LEAVES),
    lambda tree: st.one_of(
        st.builds("({}+{})".format, tree, tree),
        st.builds("({}*{})".format, tree, tree),
        st.builds("({})**({})".format, tree, tree),
        st.builds("sin({})".format, tree),
    ),
    max_leaves=12,
)


@given(TREES, TREES)
def test_nodes_have_the_keys_of_their_equations_whatever_order_padding_and_names(left, right):
    equation, pool = Equation.parse(f"{left} = {right}"), Pool()
    root = pool.tree(equation)
    assert key_of(root) == canonical_key(equation) == key_of(root)
    assert key_of(root.children[0]) == canonical_key(equation.left)
    swapped = f"({right})*1 + 0 = ({left})**1".replace("x", "t").replace("y", "x").replace("t", "y")
    assert canonical_key(equation) == canonical_key(Equation.parse(swapped))
