"""Which true evaluations trade their results: (i, j) means i with the result of j, and j with the result of i."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dgl_treestack.generate.numeric.evaluations import Evaluation

Trade = tuple[int, int]

_BINS = (80, 20)  # in hundredths


def trades(allowed: np.ndarray, preferred: np.ndarray, rng: np.random.Generator) -> list[Trade]:
    """Return disjoint trades that are allowed in both directions, in random order; if possible, half of them are preferred.
    Indices with the fewest partners choose first, so that as many as possible find a partner."""
    allowed = allowed & allowed.T
    free = np.ones(len(allowed), bool)
    pairs: list[Trade] = []
    for i in np.argsort(allowed.sum(axis=1) + rng.random(len(allowed)), kind="stable"):
        partners = np.flatnonzero(allowed[i] & free) if free[i] else np.empty(0, int)
        if len(partners):
            choice = partners[preferred[i, partners] == (rng.random() < 0.5)]
            j = int(rng.choice(choice if len(choice) else partners))
            free[[i, j]] = False
            pairs.append((int(i), j))
    return [pairs[k] for k in rng.permutation(len(pairs))]


def balanced(evaluations: Sequence[Evaluation], candidates: Iterable[Trade]) -> Iterator[Trade]:
    """Yield the trades that do not increase the imbalance of the trades before.

    The surplus of a cell, a bin of operands and a bin of results, is its count in true equations minus that in false ones.
    """
    surplus: Counter[tuple[int, ...]] = Counter()
    for trade in candidates:
        change: Counter[tuple[int, ...]] = Counter()
        for first, second in (trade, trade[::-1]):
            for slot, argument in enumerate(evaluations[first].arguments):
                for size in _BINS:
                    change[size, slot, argument // size, evaluations[first].result // size] += 1
                    change[size, slot, argument // size, evaluations[second].result // size] -= 1
        if sum(surplus[cell] * amount for cell, amount in change.items()) <= 0:
            surplus.update(change)
            yield trade
