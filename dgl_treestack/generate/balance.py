"""Symmetric resampling of pairs, so that a linear model of local features cannot tell the members apart.

To each depth group by itself, a linear model over the features of `features` is fitted out of fold. Where its scores favour the
true member of too many pairs, surplus pairs of that kind are dropped, and where they favour the false member of too many, pairs
of the other kind. Pairs stay whole, so labels stay balanced, and no network is consulted.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

BINS = 8
PARTS = 5
STRENGTH = 0.1  # of the regression, as scikit-learn's C
FEWEST = 40  # pairs of a depth group; fewer are too few to fit a model, and all stay

Difference = tuple[np.ndarray, np.ndarray]  # features, and their values in the true member minus those in the false one


def balanced(
    differences: Sequence[Difference],
    groups: Sequence[int],
    rng: np.random.Generator,
    tolerance: float = 1.5,
) -> np.ndarray:
    """Return the indices of the pairs to keep, in order.

    groups: per pair, the depth group within which it is balanced. tolerance: how many times more frequent the commoner sign of
    the score may be in each bin of its absolute value.
    """
    if not differences:
        return np.zeros(0, int)
    features, values = (np.concatenate(arrays) for arrays in zip(*differences, strict=True))
    names, columns = np.unique(features, return_inverse=True)
    ends = np.cumsum([0, *(len(row) for row, _ in differences)])
    rows = csr_matrix((values, columns, ends), shape=(len(differences), max(1, len(names))))
    keep = np.ones(len(differences), bool)
    for group in np.unique(groups):
        pairs = np.flatnonzero(np.asarray(groups) == group)
        if len(pairs) < FEWEST:
            continue
        margin = _margins(rows[pairs], rng)
        for members in np.array_split(np.argsort(np.abs(margin), kind="stable"), BINS):
            positive, negative = members[margin[members] > 0], members[margin[members] < 0]
            for many, few in ((positive, negative), (negative, positive)):
                surplus = len(many) - int(tolerance * len(few))
                if surplus > 0:
                    keep[pairs[rng.choice(many, size=surplus, replace=False)]] = False
    return np.flatnonzero(keep)


def _margins(rows: csr_matrix, rng: np.random.Generator) -> np.ndarray:
    """Return per pair the score of the true member minus that of the false one, from a model that has not seen the pair."""
    from sklearn.linear_model import LogisticRegression  # takes a second to load, which no worker process needs

    part = rng.permutation(rows.shape[0]) % PARTS
    margin = np.zeros(rows.shape[0])
    for held_out in range(PARTS):
        train, test = np.flatnonzero(part != held_out), np.flatnonzero(part == held_out)
        # a linear score of the difference, without intercept, sees each pair from both sides
        signs = np.where(rng.random(len(train)) < 0.5, 1.0, -1.0)
        model = LogisticRegression(C=STRENGTH, fit_intercept=False, max_iter=300)
        model.fit(rows[train].multiply(signs[:, None]).tocsr(), signs > 0)
        margin[test] = rows[test] @ model.coef_[0]
    return margin.round(6)  # so that the last digits of a solver do not decide
