"""Symmetric resampling of pairs, so that a linear model of local features cannot tell the members apart.

A linear model over tokens, parent-child pairs, side differences and repeated subtrees is fitted out of fold, to each depth
group by itself.
Where it says of too many pairs that the true member looks truer, surplus pairs of that kind are dropped, and where it says
the opposite, of the other kind. Pairs stay whole, so labels stay balanced, and no network is consulted.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

BINS = 8
PARTS = 5
STRENGTH = 0.1  # of the regression, as scikit-learn's C
FEWEST = 40  # a depth group of fewer pairs tells a model nothing

Difference = tuple[np.ndarray, np.ndarray]  # features, and their values in the true member minus those in the false one


def balanced(
    differences: Sequence[Difference],
    groups: Sequence[int],
    rng: np.random.Generator,
    tolerance: float = 1.5,
) -> np.ndarray:
    """Which pairs to keep, in order.

    groups: per pair, the depth group it is balanced within. tolerance: how much more frequent the commoner direction may
    stay in each bin of the score.
    """
    rows, labels = _matrix(differences), np.asarray(groups, dtype=int)
    chosen = [_symmetric(np.flatnonzero(labels == group), rows, rng, tolerance) for group in np.unique(labels)]
    return np.sort(np.concatenate(chosen)) if chosen else labels


def _matrix(differences: Sequence[Difference]) -> csr_matrix:
    features, values = (np.concatenate([row[i] for row in differences]) if differences else np.zeros(0) for i in (0, 1))
    names, columns = np.unique(features, return_inverse=True)
    ends = np.cumsum([0, *(len(row[0]) for row in differences)])
    return csr_matrix((values, columns, ends), shape=(len(differences), max(1, len(names))))


def _symmetric(pairs: np.ndarray, rows: csr_matrix, rng: np.random.Generator, tolerance: float) -> np.ndarray:
    """The pairs that stay: in each bin of |margin|, at most `tolerance` times as many of the commoner sign."""
    if len(pairs) < FEWEST:
        return pairs
    margin = _margins(rows[pairs], rng)
    keep = np.ones(len(pairs), bool)
    for chunk in np.array_split(np.argsort(np.abs(margin), kind="stable"), BINS):
        positive, negative = chunk[margin[chunk] > 0], chunk[margin[chunk] < 0]
        for many, few in ((positive, negative), (negative, positive)):
            surplus = len(many) - int(tolerance * len(few))
            if surplus > 0:
                keep[rng.choice(many, size=surplus, replace=False)] = False
    return pairs[keep]


def _margins(rows: csr_matrix, rng: np.random.Generator) -> np.ndarray:
    """Per pair, the score of the true member minus that of the false one, from a model that has not seen the pair."""
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
