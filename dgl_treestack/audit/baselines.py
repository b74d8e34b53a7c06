"""Models that cannot do mathematics, as a table. What a network reaches beyond them it did not get from local statistics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from dgl_treestack.audit import counts
from dgl_treestack.audit.corpus import Corpus

C_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
LEAVES = (1, 10)  # fewest equations in a leaf
TREES = 200
STEPS = {"100 steps of 0.1": (100, 0.1), "300 steps of 0.05": (300, 0.05)}


@dataclass(frozen=True)
class Baseline:
    """features: what is seen of the equations. settings: name -> a model not yet fitted, given the number of jobs.
    title: as it stands at the head of a column."""

    title: str
    features: Callable[[Corpus, np.ndarray], Any]
    settings: Mapping[str, Callable[[int], Any]]


def _regression(strength: float, jobs: int) -> LogisticRegression:
    return LogisticRegression(C=strength, solver="liblinear", max_iter=300)


def _forest(leaf: int, jobs: int) -> RandomForestClassifier:
    return RandomForestClassifier(TREES, min_samples_leaf=leaf, n_jobs=jobs, random_state=0)


def _boosting(steps: int, rate: float, jobs: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=steps, learning_rate=rate, early_stopping=False, random_state=0)


def _dense(features: Callable, corpus: Corpus, rows: np.ndarray) -> np.ndarray:
    return counts.dense(features(corpus, rows))


_REGRESSIONS = {f"C={strength:g}": partial(_regression, strength) for strength in C_GRID}
_FORESTS = {f"leaves of {leaf}": partial(_forest, leaf) for leaf in LEAVES}
_BOOSTINGS = {name: partial(_boosting, *steps) for name, steps in STEPS.items()}

BASELINES = {
    "size and depth": Baseline("size, depth", partial(_dense, counts.shapes), _FORESTS),
    "repetition": Baseline("repetition", partial(_dense, counts.repetition), _FORESTS),
    "tokens": Baseline("tokens", counts.token_counts, _REGRESSIONS),
    "parent-child pairs": Baseline("parent-child", counts.pair_counts, _REGRESSIONS),
    "side differences": Baseline("left - right", partial(_dense, counts.side_differences), _FORESTS),
    "boosting on all": Baseline("boosting", partial(_dense, counts.everything), _BOOSTINGS),
}
