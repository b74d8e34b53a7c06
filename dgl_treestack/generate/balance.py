"""Symmetric resampling of pairs, so that a linear model of local features cannot distinguish their members.

For every depth group, a linear model over the features of `features` is cross-validated. If its scores favour the true member
of too many pairs, surplus pairs of this kind are dropped; if they favour the false member of too many, surplus pairs of that
kind. Whole pairs are dropped, so labels stay balanced, and no network takes part.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

BINS = 8
PARTS = 5
STRENGTH = 0.1  # of the regression, as scikit-learn's C
FEWEST = 40  # minimum pairs of a depth group to fit a model; a smaller group is kept as it is

Difference = tuple[np.ndarray, np.ndarray]  # features, and their values in the true member minus those in the false one


def balanced(
    differences: Sequence[Difference],
    groups: Sequence[int],
    rng: np.random.Generator,
    tolerance: float = 1.5,
) -> np.ndarray:
    """Return the indices of the pairs to keep, in order.

    groups: per pair, the depth group within which it is balanced. tolerance: maximum ratio of the frequencies of the two signs
    of the score, in each bin of its absolute value.
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
    from sklearn.linear_model import LogisticRegression  # takes a second to load, and worker processes do not need it

    part = rng.permutation(rows.shape[0]) % PARTS
    margin = np.zeros(rows.shape[0])
    for held_out in range(PARTS):
        train, test = np.flatnonzero(part != held_out), np.flatnonzero(part == held_out)
        # without intercept, the linear score of a difference changes sign when the members are exchanged
        signs = np.where(rng.random(len(train)) < 0.5, 1.0, -1.0)
        model = LogisticRegression(C=STRENGTH, fit_intercept=False, max_iter=300)
        model.fit(rows[train].multiply(signs[:, None]).tocsr(), signs > 0)
        margin[test] = rows[test] @ model.coef_[0]
    return margin.round(6)  # independent of a solver's last digits
