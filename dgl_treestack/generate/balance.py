"""Symmetric resampling of pairs, so that a linear model of local features cannot tell the members apart.

A linear model over tokens, parent-child pairs and side differences is fitted out of fold. Where it says of too many pairs
that the true member looks truer, surplus pairs of that kind are dropped, and where it says the opposite, of the other
kind. Pairs stay whole, so labels and tokens stay balanced, and no network is consulted.
"""

from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from dgl_treestack.expression import Expression
from dgl_treestack.generate.features import pair_counts, side_difference

BINS = 8


def balanced(
    pairs: Sequence[tuple[Expression, Expression]],
    groups: Sequence[int],
    rng: np.random.Generator,
    tolerance: float = 1.5,
    rounds: int = 1,
) -> list[int]:
    """The indices of the pairs to keep, in order.

    pairs: (true, false). groups: per pair, the depth group it is balanced within. tolerance: how much more frequent the
    commoner direction may stay in each bin of the score.
    """
    kept = np.arange(len(pairs))
    labels = np.asarray(groups, dtype=int)
    for _ in range(rounds):
        margin = _margins([pairs[int(i)] for i in kept], rng)
        kept = kept[_symmetric(margin, labels[kept], rng, tolerance)]
    return kept.tolist()


def _margins(pairs: Sequence[tuple[Expression, Expression]], rng: np.random.Generator, parts: int = 5) -> np.ndarray:
    """Per pair, the score of the true member minus that of the false one, from a model that has not seen the pair."""
    vectorizer = DictVectorizer()
    rows = vectorizer.fit_transform([_features(member) for pair in pairs for member in pair])
    difference = (rows[0::2] - rows[1::2]).tocsr()
    part = rng.permutation(len(pairs)) % parts
    margin = np.zeros(len(pairs))
    for held_out in range(parts):
        train, test = np.flatnonzero(part != held_out), np.flatnonzero(part == held_out)
        # a linear score of the difference, without intercept, sees each pair from both sides
        signs = np.where(rng.random(len(train)) < 0.5, 1.0, -1.0)
        model = LogisticRegression(C=0.1, fit_intercept=False, max_iter=300)
        model.fit(difference[train].multiply(signs[:, None]).tocsr(), signs > 0)
        margin[test] = difference[test] @ model.coef_[0]
    return margin


def _features(expression: Expression) -> dict[str, float]:
    sides = {f"side {name}": float(count) for name, count in side_difference(expression).items() if count}
    return {**{name: float(count) for name, count in pair_counts(expression).items()}, **sides}


def _symmetric(margin: np.ndarray, groups: np.ndarray, rng: np.random.Generator, tolerance: float) -> np.ndarray:
    """Which pairs stay: in each depth group and bin of |margin|, at most `tolerance` times as many of the commoner sign."""
    keep = np.ones(len(margin), bool)
    for group in np.unique(groups):
        inside = np.flatnonzero(groups == group)
        order = inside[np.argsort(np.abs(margin[inside]), kind="stable")]
        for chunk in np.array_split(order, BINS):
            positive, negative = chunk[margin[chunk] > 0], chunk[margin[chunk] < 0]
            for many, few in ((positive, negative), (negative, positive)):
                surplus = len(many) - int(tolerance * len(few))
                if surplus > 0:
                    keep[rng.choice(many, size=surplus, replace=False)] = False
    return keep
