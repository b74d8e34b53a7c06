"""The table of models that cannot do mathematics. A network with a higher accuracy does not use local statistics alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from dgl_treestack.audit.corpus import Corpus
from dgl_treestack.audit.counts import REPETITION, SHAPE, columns, pair_counts, side_differences, token_counts

C_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
LEAVES = (1, 10)  # minimum equations in a leaf
TREES = 200
STEPS = {"100 steps of 0.1": (100, 0.1), "300 steps of 0.05": (300, 0.05)}
MAX_DENSE = 600  # columns of a dense matrix: those with the fewest zeros

Settings = Mapping[str, Mapping[str, Any]]
_REGRESSIONS: Settings = {f"C={strength:g}": {"C": strength, "solver": "liblinear", "max_iter": 300} for strength in C_GRID}
_FORESTS: Settings = {f"leaves of {leaf}": {"min_samples_leaf": leaf, "random_state": 0} for leaf in LEAVES}
_BOOSTINGS: Settings = {
    name: {"max_iter": steps, "learning_rate": rate, "early_stopping": False, "random_state": 0}
    for name, (steps, rate) in STEPS.items()
}


@dataclass(frozen=True)
class Baseline:
    """A kind of model and its input.

    title: head of its column in a table. counts: functions of `audit.counts`, whose matrices are concatenated.
    model: the scikit-learn class. settings: name -> keyword arguments of the class.
    """

    title: str
    counts: tuple[Callable[[Corpus, np.ndarray], sparse.csr_matrix], ...]
    model: type
    settings: Settings

    def features(self, corpus: Corpus, rows: np.ndarray, fitted: np.ndarray | None = None) -> Any:
        """Return the input (n, features) for n equations: sparse for a regression, else dense (fullest columns).

        fitted: positions in `rows` of the equations on which columns count as full, by default all.
        """
        matrices = [count(corpus, rows) for count in self.counts]
        matrix = sparse.hstack(matrices).tocsr() if len(matrices) > 1 else matrices[0]
        if self.model is LogisticRegression:
            return matrix
        filled = np.bincount((matrix if fitted is None else matrix[fitted]).indices, minlength=matrix.shape[1])
        fullest = np.sort(np.argsort(-filled, kind="stable")[:MAX_DENSE])
        return matrix[:, fullest].toarray()

    def build(self, setting: str, jobs: int) -> Any:
        """Return an unfitted model. jobs: threads of a random forest."""
        if self.model is RandomForestClassifier:
            return RandomForestClassifier(TREES, n_jobs=jobs, **self.settings[setting])
        return self.model(**self.settings[setting])


_SHAPES, _REPETITIONS = partial(columns, names=SHAPE), partial(columns, names=REPETITION)
_ALL = (_SHAPES, _REPETITIONS, pair_counts, side_differences)

BASELINES = {
    "size and depth": Baseline("size, depth", (_SHAPES,), RandomForestClassifier, _FORESTS),
    "repetition": Baseline("repetition", (_REPETITIONS,), RandomForestClassifier, _FORESTS),
    "tokens": Baseline("tokens", (token_counts,), LogisticRegression, _REGRESSIONS),
    "parent-child pairs": Baseline("parent-child", (pair_counts,), LogisticRegression, _REGRESSIONS),
    "side differences": Baseline("left - right", (side_differences,), RandomForestClassifier, _FORESTS),
    "boosting on all": Baseline("boosting", _ALL, HistGradientBoostingClassifier, _BOOSTINGS),
}
