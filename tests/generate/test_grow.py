from collections import Counter

import numpy as np
import pytest

from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.corrupt import places, swaps
from dgl_treestack.generate.features import pair_counts, token_counts
from dgl_treestack.generate.grow import FUNCTIONS, Grower
from dgl_treestack.generate.nodes import find, to_equation
from dgl_treestack.generate.pairs import certify


def grown(depth: int, count: int, seed: int = 3):
    """(grower, equation node) of `count` derivations of a depth."""
    grower = Grower(load_axioms(), np.random.default_rng(seed))
    while count:
        start = grower.start()
        sides = grower.grow(start, depth) if start.depth <= depth else None
        if sides:
            count -= 1
            yield grower, grower.pool.node("Equality", *sides)


@pytest.mark.parametrize("depth", [2, 3, 5, 8, 13, 19])
def test_growth_hits_the_depth_and_keeps_the_size(depth):
    for _, root in grown(depth, 20):
        equation = to_equation(*root.children)
        assert equation.depth == depth == root.depth and equation.size == root.size <= 5 * depth + 4
        assert equation.left != equation.right


@pytest.mark.parametrize("depth", [4, 6, 9])
def test_derivations_are_sound(depth):
    verdicts = Counter(certify(root).verdict for _, root in grown(depth, 120))
    assert set(verdicts) <= {"holds", "undefined"}
    assert verdicts["holds"] > 90


def test_work_is_done_on_both_sides():
    differences = [abs(root.children[0].depth - root.children[1].depth) for _, root in grown(8, 100)]
    assert sum(differences) / len(differences) < 4
    assert all(
        min(side.size for side in root.children) < max(side.size for side in root.children) + 30 for _, root in grown(8, 20)
    )


def test_every_function_occurs():
    seen = Counter(name for _, root in grown(6, 250) for name in {node.name for node in root.walk()})
    assert min(seen[name] for name in FUNCTIONS) >= 5


@pytest.mark.parametrize("depth", [3, 6, 10])
def test_a_swap_keeps_depth_and_tokens_and_mostly_pairs(depth):
    kept = total = 0
    for grower, root in grown(depth, 60):
        true = to_equation(*root.children)
        for swapped in swaps(grower.pool, root, grower.rng, tries=3):
            false = to_equation(*swapped.children)
            assert false != true and false.depth == true.depth
            assert token_counts(false) == token_counts(true)
            kept += pair_counts(false) == pair_counts(true)
            total += 1
    assert total > 20 and 0.7 < kept / total < 1


def test_places_are_the_pre_order_positions():
    for _, root in grown(5, 10):
        for place in places(root):
            assert find(root, place.index) is place.node


def test_one_seed_grows_the_same_equations():
    first, second, other = ([str(to_equation(*root.children)) for _, root in grown(6, 10, seed)] for seed in (1, 1, 2))
    assert first == second != other
