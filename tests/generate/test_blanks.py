import numpy as np
import pytest

from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.blanks import CandidateSet, Filler, Fillings
from dgl_treestack.generate.nodes import Pool, verdict_on


@pytest.fixture
def filler():
    return Filler(("x", "y"), np.random.default_rng(4))


def test_all_small_expressions_once(filler):
    nodes = list(filler.simple())
    leaves = len(filler.leaves)
    assert len(nodes) == len(set(nodes)) == leaves + 25 * leaves + 3 * leaves**2
    assert max(node.depth for node in nodes) == 1


@pytest.mark.parametrize("depth", [0, 1, 3, 7, 13])
def test_expressions_near_misses_and_rewritings_have_the_depth(filler, depth):
    nodes = [filler.drawn(depth) for _ in range(60)]
    assert {node.depth for node in nodes} == {depth}
    assert max(node.size for node in nodes) <= 8 * depth + 8
    assert {name for node in nodes for name in node.variables} == {"x", "y"}
    near_misses = [(node, missed) for node in nodes if (missed := filler.near_miss(node)) is not None]
    assert len(near_misses) > 15
    assert all(missed is not node and missed.depth == depth and missed.size == node.size for node, missed in near_misses)
    rewritings = [(node, new) for node in nodes if depth > 1 and (new := filler.rewriting(node)) is not None]
    assert len(rewritings) > (30 if depth > 1 else -1)
    assert all(new is not node and new.depth == depth for node, new in rewritings)
    assert {verdict_on(node, new).verdict for node, new in rewritings} <= {"holds", "undefined"}


def test_equal_values_share_a_class():
    for texts, classes in (
        (["x", "1*x", "2*x", "x + x", "y", "0", "sin(0)", "sin(x)**2", "1 - cos(x)**2"], [0, 0, 1, 1, 2, 3, 3, 4, 4]),
        (["1/0", "exp(exp(exp(x + 9)))", "oo"], [None] * 3),  # undefined somewhere
        (["x", "sqrt(x**2)"], [0, None]),  # what agrees at some points only is left out, whichever comes second
        (["sqrt(x**2)", "x"], [0, None]),
        (["x", "Float(1.0000000001)*x", "x + Float(0.00001)"], [0, None, 1]),
        ([*(f"x + {number}" for number in range(200)), "(x + 100) + 7"], [*range(200), 107]),
    ):
        pool, candidates = Pool(), CandidateSet()
        assert [candidates.add(pool.tree(Expression.parse(text))) for text in texts] == classes


def fit(equation, blank, *texts):
    pool = Pool()
    classes = {pool.tree(Expression.parse(text)): text for text in reversed(texts)}
    return Fillings(pool, classes).fit(Equation.parse(equation), blank)


def test_right_fillers_need_not_equal_the_truth():
    filled = fit("x**2 = x*x", 2, "x", "-x", "2*x", "sqrt(x**2)", "1/0", "x**(-1)")
    assert filled["right"] == ["x", "-x", "sqrt(x**2)"] and filled["doubtful"] == ["1/0"]
    assert fit("x = 1*x", 1, "x", "sqrt(x**2)", "y")["doubtful"] == ["sqrt(x**2)"]
    assert fit("sin(pi)*x = 0*y", 3, "pi", "1", "pi*2")["right"] == ["pi", "pi*2"], "zero but for rounding is judged"
