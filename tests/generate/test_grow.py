from collections import Counter

import numpy as np
import pytest
from plain_features import token_counts

from dgl_treestack.expression import Equation
from dgl_treestack.generate.assembly import pair_counts
from dgl_treestack.generate.grow import FUNCTIONS, SIZE_OFFSET, SIZE_PER_DEPTH, Grower
from dgl_treestack.generate.nodes import to_expression
from dgl_treestack.generate.pairs import STYLES, PairMaker, swaps
from dgl_treestack.truth import judge, judge_at_fixed_points


def to_equation(root):
    return to_expression(root, Equation)


def equations(pair):
    return to_equation(pair.true.root), to_equation(pair.false.root)


def grown(depth: int, count: int, seed: int = 3):
    """(grower, derivation) of `count` derivations of a depth."""
    grower = Grower(np.random.default_rng(seed))
    while count:
        start = grower.start()
        derivation = grower.grow(start, depth) if start.root.depth <= depth else None
        if derivation:
            count -= 1
            yield grower, derivation


@pytest.mark.parametrize("depth", [2, 3, 5, 8, 13, 19, 40])
def test_growth_hits_the_depth_and_keeps_the_size(depth):
    for _, derivation in grown(depth, 20 if depth < 20 else 1):
        equation = to_equation(derivation.root)
        assert equation.depth == depth == derivation.root.depth
        assert equation.size == derivation.root.size <= SIZE_PER_DEPTH * depth + SIZE_OFFSET
        assert equation.left != equation.right


def test_derivations_and_further_rewrites_are_sound_and_keep_the_depth():
    verdicts = Counter()
    for grower, derivation in grown(6, 30):
        verdicts[judge(to_equation(derivation.root)).verdict] += 1
        further = grower.further(derivation, 6, 2)
        if further is not None:
            assert len(further.steps) >= len(derivation.steps) + 2 and further.root.depth == 6
            assert judge(to_equation(further.root)).verdict in ("holds", "undefined")
    assert verdicts["holds"] > 22 and set(verdicts) <= {"holds", "undefined"}


def test_work_is_done_on_both_sides_and_every_function_occurs():
    sides = [derivation.root.children for _, derivation in grown(8, 150)]
    differences = [abs(left.depth - right.depth) for left, right in sides]
    assert sum(differences) / len(differences) < 4
    assert min(Counter(left.depth > right.depth for left, right in sides).values()) > 30
    seen = Counter(n for _, d in grown(6, 250) for n in {node.name for node in d.root.walk()})
    assert min(seen[name] for name in FUNCTIONS) >= 5


@pytest.mark.parametrize("depth", [3, 6, 10])
def test_a_swap_keeps_depth_and_tokens_and_mostly_pairs(depth):
    pairs_kept = total = 0
    for grower, derivation in grown(depth, 60):
        true = to_equation(derivation.root)
        for swapped in swaps(grower, derivation.root, tries=3):
            false = to_equation(swapped)
            assert false != true and false.depth == true.depth
            assert token_counts(false) == token_counts(true)
            pairs_kept += pair_counts(false) == pair_counts(true)
            total += 1
    assert total > 20 and 0.6 < pairs_kept / total < 1


@pytest.mark.parametrize("style", STYLES)
def test_the_members_of_a_pair_are_what_they_are_said_to_be(style):
    maker = PairMaker(Grower(np.random.default_rng(4)), {style: 1.0})
    pairs = [pair for pair in (maker.make(*maker.start(), depth=6) for _ in range(30)) if pair]
    assert len(pairs) > 7
    for pair in pairs:
        true, false = equations(pair)
        assert (true.depth, false.depth, pair.style) == (6, 6, style)
        assert max(true.size, false.size) <= 1.25 * min(true.size, false.size)
        assert judge_at_fixed_points(true) == pair.true.verdict and judge(true).verdict == "holds"
        assert judge_at_fixed_points(false) == pair.false.verdict and judge(false).verdict == "refuted"
    tokens_kept = [token_counts(true) == token_counts(false) for true, false in map(equations, pairs)]
    assert all(tokens_kept) if style == "swap" else not all(tokens_kept)
    keys = [member.key for pair in pairs for member in (pair.true, pair.false)]
    assert len(set(keys)) == len(keys)


def test_nothing_without_variables_where_it_is_asked_for_and_pairs_of_depth_one_are_leaves():
    maker = PairMaker(Grower(np.random.default_rng(5)), {"swap": 1.0})
    made = (maker.make(*maker.start(False), depth=4, numeric=False) for _ in range(120))
    pairs = [pair for pair in made if pair]
    assert len(pairs) > 10 and all(pair.true.root.variables for pair in pairs)
    pairs = list(PairMaker(Grower(np.random.default_rng(0)), {"swap": 1.0}).atoms())
    assert len(pairs) >= 10 and all(pair.true.root.depth == pair.false.root.depth == 1 for pair in pairs)
    assert all(true.left == true.right for true, _ in map(equations, pairs))
