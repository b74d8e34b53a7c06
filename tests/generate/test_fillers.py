import numpy as np
import pytest

from dgl_treestack.generate.fillers import Filler, verdict_on


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
    near_misses = [(node, missed) for node in nodes if (missed := filler.near_miss(node)) is not None]
    assert len(near_misses) > 15
    assert all(missed is not node and missed.depth == depth and missed.size == node.size for node, missed in near_misses)


@pytest.mark.parametrize("depth", [2, 6])
def test_a_rewriting_is_equal_and_of_the_depth(filler, depth):
    nodes = [filler.drawn(depth) for _ in range(60)]
    rewritings = [(node, new) for node in nodes if (new := filler.rewriting(node)) is not None]
    assert len(rewritings) > 30
    assert all(new is not node and new.depth == depth for node, new in rewritings)
    assert {verdict_on(node, new) for node, new in rewritings} <= {"holds", "undefined"}
