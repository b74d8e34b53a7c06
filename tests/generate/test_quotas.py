import numpy as np

from dgl_treestack.expression import Equation
from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.grow import Grower
from dgl_treestack.generate.pairs import Pair, PairMaker
from dgl_treestack.generate.quotas import Quota, pick_quota


def pair(true: str) -> Pair:
    return Pair(Equation.parse(true), Equation.parse("1 = 2"), 3, "family", "axiom", ())


def test_a_full_quota_is_closed():
    quota = Quota("train", 3, wanted=2, patience=5)
    for _ in range(2):
        assert quota.is_open
        quota.add(pair("sin(x) = sin(x)"))
    assert not quota.is_open


def test_only_misses_in_a_row_exhaust_the_patience():
    quota = Quota("train", 3, wanted=9, patience=3)
    for outcome in (None, None, pair("x = x"), None, None):
        quota.add(outcome)
    assert quota.is_open
    quota.add(None)
    assert not quota.is_open


def test_a_seventh_may_be_without_variables_from_depth_three_on():
    deep, shallow = Quota("train", 3, wanted=14, patience=9), Quota("train", 2, wanted=14, patience=9)
    for quota in (deep, shallow):
        for _ in range(2):
            assert quota.takes_numeric
            quota.add(pair("2 + 2 = 4"))
    assert not deep.takes_numeric and shallow.takes_numeric


def test_a_quota_is_picked_from_the_fold_at_the_depth_or_deeper():
    quotas = [Quota(fold, depth, 1, 1) for fold in ("train", "test") for depth in (2, 4, 6)]
    picked = {pick_quota(quotas, "test", 4, np.random.default_rng(seed)).depth for seed in range(20)}
    assert picked == {4, 6}
    assert pick_quota(quotas, "test", 7, np.random.default_rng(0)) is None


def test_every_attempt_is_tallied_and_no_pair_is_made_twice():
    maker = PairMaker(Grower(load_axioms(), np.random.default_rng(0)))
    made = [maker.make(*maker.start(), depth=3) for _ in range(300)]
    assert sum(maker.tally.values()) == 300
    assert maker.tally["pairs"] == sum(pair is not None for pair in made) > 50
    equations = [e for pair in made if pair for e in (pair.true, pair.false)]
    assert len(set(equations)) == len(equations) == len(maker.seen)
