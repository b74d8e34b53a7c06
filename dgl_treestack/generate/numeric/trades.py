"""Which true evaluations trade their results: (i, j) stands for i with the result of j and j with the result of i."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dgl_treestack.generate.numeric.evaluations import Evaluation

Trade = tuple[int, int]

_BINS = (80, 20)  # in hundredths


def trades(may: np.ndarray, preferred: np.ndarray, rng: np.random.Generator) -> list[Trade]:
    """Disjoint trades that may be, in random order; half of them preferred ones where there is a choice.

    What has the fewest partners chooses first, so that as many as possible find one.
    """
    may = may & may.T
    free = np.ones(len(may), bool)
    found: list[Trade] = []
    for i in np.argsort(may.sum(axis=1) + rng.random(len(may)), kind="stable"):
        partners = np.flatnonzero(may[i] & free) if free[i] else np.empty(0, int)
        if len(partners):
            choice = partners[preferred[i, partners] == (rng.random() < 0.5)]
            j = int(rng.choice(choice if len(choice) else partners))
            free[[i, j]] = False
            found.append((int(i), j))
    return [found[k] for k in rng.permutation(len(found))]


def balanced(found: Sequence[Evaluation], candidates: Iterable[Trade]) -> Iterator[Trade]:
    """The trades that do not add to what is already out of balance: how often an operand stands, roughly, with a result in a
    true equation, less how often in a false one."""
    surplus: Counter[tuple[int, ...]] = Counter()
    for trade in candidates:
        change = _change(found, trade)
        if sum(surplus[cell] * amount for cell, amount in change.items()) <= 0:
            surplus.update(change)
            yield trade


def _change(found: Sequence[Evaluation], trade: Trade) -> Counter[tuple[int, ...]]:
    change: Counter[tuple[int, ...]] = Counter()
    for own, other in (trade, trade[::-1]):
        for slot, argument in enumerate(found[own].arguments):
            for size in _BINS:
                change[size, slot, argument // size, found[own].result // size] += 1
                change[size, slot, argument // size, found[other].result // size] -= 1
    return change
