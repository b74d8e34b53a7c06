"""The table of models that cannot do mathematics. A network with a higher accuracy does not use local statistics alone.

They read counts of local features, as sparse matrices with a row per equation: those of `generate.features`, computed from
columns ten times faster, at a million nodes per second. Functions of counts take a corpus and the positions of n equations in
it, and return (n, features).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from dgl_treestack.audit.corpus import ROOT, Corpus

SHAPE = ("size", "depth", "left_size", "left_depth", "right_depth")
REPETITION = ("distinct", "common", "size")


def token_counts(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """Count each token."""
    position, _, node = corpus.nodes(rows)
    return _sums(position, corpus.token[node], np.ones(len(node)), len(rows))


def pair_counts(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """Count each token, and each pair of parent and child token."""
    position, _, node = corpus.nodes(rows)
    below_root = corpus.parent[node] != ROOT
    position, node = position[below_root], node[below_root]
    pair = corpus.parent[node].astype(np.int64) * len(corpus.tokens) + corpus.token[node]
    return sparse.hstack([token_counts(corpus, rows), _sums(position, pair, np.ones(len(pair)), len(rows))]).tocsr()


def side_differences(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """Return, per token, its count on the left minus its count on the right, and then the absolute values of these."""
    position, index, node = corpus.nodes(rows)
    sign = np.where(index <= corpus["left_size"][rows][position], 1.0, -1.0)
    below_root = index > 0
    difference = _sums(position[below_root], corpus.token[node][below_root], sign[below_root], len(rows))
    return sparse.hstack([difference, abs(difference)]).tocsr()


def columns(corpus: Corpus, rows: np.ndarray, names: Sequence[str]) -> sparse.csr_matrix:
    """Return columns of the corpus, such as those of `SHAPE` (of the whole and of each side) or `REPETITION` (of subtrees)."""
    return sparse.csr_matrix(np.stack([corpus[name][rows] for name in names], axis=1).astype(np.float32))


def _sums(position: np.ndarray, feature: np.ndarray, value: np.ndarray, rows: int) -> sparse.csr_matrix:
    """Sum values per equation and feature; features that do not occur have no column."""
    present, column = np.unique(feature, return_inverse=True)
    triples = (value.astype(np.float32), (position, column))
    matrix = sparse.coo_matrix(triples, shape=(rows, len(present))).tocsr()
    matrix.eliminate_zeros()
    return matrix


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

    title: head of its column in a table. counts: functions of this module, whose matrices are concatenated.
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
