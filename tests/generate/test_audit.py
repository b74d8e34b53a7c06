import numpy as np
import pytest

from dgl_treestack.expression import Equation
from dgl_treestack.formats import Example
from dgl_treestack.generate.audit import leakage
from dgl_treestack.generate.features import pair_counts, shape, side_difference, token_counts


def examples(true: str, false: str, count: int = 60) -> list[Example]:
    """Pairs of two patterns with a number in them, so that no two equations are equal."""
    texts = [(pattern.format(i), label) for i in range(count) for pattern, label in ((true, 1), (false, 0))]
    return [Example(Equation.parse(text), label, str(n), pair=str(n // 2)) for n, (text, label) in enumerate(texts)]


@pytest.mark.parametrize(
    ("true", "false", "seen_by", "blind"),
    [
        ("sin(x) = {}", "cos(x) = {}", "tokens", "size and depth"),
        ("sin(cos(x)) = {}", "cos(sin(x)) = {}", "parent-child pairs", "tokens"),
        ("sin(x) = cos(x)*{}", "sin(x)*cos(x) = {}", "side differences", "tokens"),
        ("x + x = x*{}", "x + x*x = {}", "size and depth", "tokens"),
    ],
)
def test_a_planted_leak_is_found_by_the_baseline_that_can_see_it(true, false, seen_by, blind):
    found = leakage(examples(true, false), (seen_by, blind))
    assert found[seen_by]["all"] > 95
    assert found[blind]["all"] < 60


def test_labels_without_a_pattern_are_at_chance():
    rng = np.random.default_rng(0)
    shuffled = [
        pair[:: 1 if rng.random() < 0.5 else -1]
        for pair in zip(*[iter(examples("sin({}*x) = y", "cos({}*x) = y"))] * 2, strict=True)
    ]
    relabelled = [Example(e.equation, 1 - i, e.id, pair=e.pair) for pair in shuffled for i, e in enumerate(pair)]
    assert 25 < leakage(relabelled, ("tokens",))["tokens"]["all"] < 75


def test_depth_groups_are_reported():
    mixed = examples("x = {}", "{} = x", 20) + [
        Example(e.equation, e.label, "deep" + e.id, pair="deep" + e.pair)
        for e in examples("sin(sin(x)) = {}", "{} = sin(sin(x))", 20)
    ]
    assert set(leakage(mixed, ("tokens",))["tokens"]) == {"all", "depth 1-2", "depth 3-4"}


def test_features_count_what_they_say():
    equation = Equation.parse("sin(x) + x = 2*x")
    assert token_counts(equation) == {"Equality": 1, "Add": 1, "sin": 1, "Symbol:x": 3, "Mul": 1, "Integer:2": 1}
    assert pair_counts(equation)["sin > Symbol:x"] == 1 and pair_counts(equation)["Equality > Mul"] == 1
    assert side_difference(equation)["Symbol:x"] == 1 and side_difference(equation)["|Mul|"] == 1
    assert side_difference(equation)["Mul"] == -1
    assert shape(equation) == {"size": 8, "depth": 3, "left_size": 4, "left_depth": 2, "right_depth": 1}
