import numpy as np

from dgl_treestack.expression import Equation
from dgl_treestack.formats import Example
from dgl_treestack.generate.audit import leakage
from dgl_treestack.generate.balance import balanced

FUNCTIONS = ("sin", "cos", "tan", "sinh", "cosh", "tanh")


def leaky_pairs(count: int = 600, seed: int = 0) -> list[tuple[Equation, Equation]]:
    """Pairs with the same tokens whose true member has f over its own inverse in four cases of five, the false in one."""
    rng, pairs = np.random.default_rng(seed), []
    for i in range(count):
        first, second = rng.permutation(FUNCTIONS)[:2]
        matched = f"{first}(a{first}(x)) + {second}(a{second}(y)) = {i}"
        crossed = f"{first}(a{second}(x)) + {second}(a{first}(y)) = {i}"
        true, false = (matched, crossed) if rng.random() < 0.8 else (crossed, matched)
        pairs.append((Equation.parse(true), Equation.parse(false)))
    return pairs


def leak(pairs: list[tuple[Equation, Equation]]) -> float:
    examples = [
        Example(equation, 1 - which, f"{i}{which}", pair=str(i))
        for i, pair in enumerate(pairs)
        for which, equation in enumerate(pair)
    ]
    return leakage(examples, ("parent-child pairs",))["parent-child pairs"]["all"]


def test_resampling_removes_a_planted_leak():
    pairs = leaky_pairs()
    kept = balanced(pairs, [0] * len(pairs), np.random.default_rng(0), tolerance=1.0)
    assert leak(pairs) > 75
    assert 0.2 * len(pairs) < len(kept) < 0.6 * len(pairs)
    assert leak([pairs[i] for i in kept]) < 56


def test_pairs_that_do_not_leak_stay():
    pairs = [pair if i % 2 else pair[::-1] for i, pair in enumerate(leaky_pairs())]
    assert len(balanced(pairs, [0] * len(pairs), np.random.default_rng(0))) > 0.85 * len(pairs)


def test_the_kept_indices_are_ordered_and_reproducible():
    pairs = leaky_pairs(200)
    first, again = (balanced(pairs, [i % 2 for i in range(200)], np.random.default_rng(5)) for _ in range(2))
    assert first == again == sorted(set(first))
