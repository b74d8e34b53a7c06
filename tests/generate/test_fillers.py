import numpy as np
import pytest

from dgl_treestack.generate.completion.fillers import Filler
from dgl_treestack.generate.completion.value_classes import verdict_on


@pytest.fixture
def filler():
    return Filler(("x", "y"), np.random.default_rng(4))


def test_all_small_expressions_once(filler):
    nodes = list(filler.simple())
    leaves = len(filler.leaves)
    assert len(nodes) == len(set(nodes)) == leaves + 25 * leaves + 3 * leaves**2
    assert max(node.depth for node in nodes) == 1


@pytest.mark.parametrize("depth", [0, 1, 3, 7, 13])
def test_a_random_expression_has_the_depth_and_a_modest_size(filler, depth):
    nodes = [filler.drawn(depth) for _ in range(60)]
    assert {node.depth for node in nodes} == {depth}
    assert max(node.size for node in nodes) <= 8 * depth + 8
    assert {name for node in nodes for name in node.variables} == {"x", "y"}


@pytest.mark.parametrize("depth", [1, 4, 9])
def test_a_near_miss_is_another_expression_of_the_depth(filler, depth):
    nodes = [filler.drawn(depth) for _ in range(60)]
    found = [(node, missed) for node in nodes if (missed := filler.near_miss(node)) is not None]
    assert len(found) > 15
    assert all(missed is not node and missed.depth == depth and missed.size == node.size for node, missed in found)


@pytest.mark.parametrize("depth", [2, 6])
def test_a_rewriting_is_equal_and_of_the_depth(filler, depth):
    nodes = [filler.drawn(depth) for _ in range(60)]
    found = [(node, other) for node in nodes if (other := filler.rewriting(node)) is not None]
    assert len(found) > 30
    assert all(other is not node and other.depth == depth for node, other in found)
    assert {verdict_on(node, other) for node, other in found} <= {"holds", "undefined"}
