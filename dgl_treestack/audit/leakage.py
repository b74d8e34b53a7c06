"""Leakage: how well the baselines distinguish correct from incorrect equations, fitted to and scored on one group of depths.

Every setting is scored by five-fold cross-validation in which the members of a pair are in the same fold; the best setting
is reported. Chance is the share of the more frequent label.

The baselines cannot do mathematics: a network with a higher accuracy does not use local statistics alone. They read counts of
local features, those of `generate.assembly`, computed from columns ten times faster, at a million nodes per second. Functions
of counts take a corpus and the positions of n equations in it, and return a sparse matrix (n, features).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from dgl_treestack.audit.corpus import ROOT, UNKNOWN, EquationTable

SHAPE = ("size", "depth", "left_size", "left_depth", "right_depth")
REPETITION = ("distinct", "common", "size")


def token_counts(corpus: EquationTable, rows: np.ndarray) -> sparse.csr_matrix:
    """Count each token."""
    position, _, node = corpus.nodes(rows)
    return _sums(position, corpus.token[node], np.ones(len(node)), len(rows))


def pair_counts(corpus: EquationTable, rows: np.ndarray) -> sparse.csr_matrix:
    """Count each token, and each pair of parent and child token."""
    position, _, node = corpus.nodes(rows)
    below_root = corpus.parent[node] != ROOT
    position, node = position[below_root], node[below_root]
    pair = corpus.parent[node].astype(np.int64) * len(corpus.tokens) + corpus.token[node]
    return sparse.hstack([token_counts(corpus, rows), _sums(position, pair, np.ones(len(pair)), len(rows))]).tocsr()


def side_differences(corpus: EquationTable, rows: np.ndarray) -> sparse.csr_matrix:
    """Return, per token, its count on the left minus its count on the right, and then the absolute values of these."""
    position, index, node = corpus.nodes(rows)
    sign = np.where(index <= corpus["left_size"][rows][position], 1.0, -1.0)
    below_root = index > 0
    difference = _sums(position[below_root], corpus.token[node][below_root], sign[below_root], len(rows))
    return sparse.hstack([difference, abs(difference)]).tocsr()


def columns(corpus: EquationTable, rows: np.ndarray, names: Sequence[str]) -> sparse.csr_matrix:
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
    counts: tuple[Callable[[EquationTable, np.ndarray], sparse.csr_matrix], ...]
    model: type
    settings: Settings

    def features(self, corpus: EquationTable, rows: np.ndarray, fitted: np.ndarray | None = None) -> Any:
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

DEPTH_GROUPS = ((1, 2), (3, 4), (5, 7), (8, 13), (14, 19), (20, None))
SAMPLE = 20_000
FEWEST = 20  # minimum equations of each label in a group
PARTS = 5


@dataclass(frozen=True)
class Fit:
    """How leakage is measured.

    sample: equations per group at most, 0 for all. jobs: threads. baselines: names of `BASELINES`.
    groups: minimum and maximum depth of each group; None is no limit.
    """

    sample: int = SAMPLE
    jobs: int = 1
    baselines: Sequence[str] = tuple(BASELINES)
    groups: Sequence[tuple[int, int | None]] = DEPTH_GROUPS


DEFAULT = Fit()


def measure(corpus: EquationTable, rows: np.ndarray, fit: Fit = DEFAULT, title: str = "") -> list[dict]:
    """Measure leakage: a row per depth group with labelled equations.

    A row has the number of `equations`, how many were `used`, the `majority` in per cent, and `baselines`: name -> `accuracy`
    and `standard_error` in per cent, `setting`, `above` (more than two standard errors above the majority). A group with too
    few equations has `skipped` with the reason instead.

    rows: positions of equations. title: of a progress bar, none without it.
    """
    rows = rows[corpus["label"][rows] != UNKNOWN]
    result, measured = list[dict[str, Any]](), list[tuple[dict[str, Any], np.ndarray, np.ndarray]]()
    depth = corpus["depth"][rows]
    for low, high in fit.groups:
        inside = rows[(depth >= low) & (depth <= (math.inf if high is None else high))]
        if not len(inside):
            continue
        used = sampled(corpus, inside, fit.sample)
        label, pair = corpus["label"][used], np.unique(corpus["pair"][used], return_inverse=True)[1]
        correct, pairs = int(label.sum()), int(pair.max()) + 1
        part = (np.random.default_rng(1).permutation(pairs) % PARTS)[pair]
        result.append({"depths": f"{low}+" if high is None else f"{low}-{high}", "equations": len(inside)})
        if min(correct, len(used) - correct) < FEWEST:
            counts = f"{correct} correct and {len(used) - correct} incorrect equations"
            result[-1]["skipped"] = f"{counts}; {FEWEST} of each are needed"
        elif pairs < PARTS:
            result[-1]["skipped"] = f"{pairs} pairs; {PARTS} are needed"
        elif any(len(np.unique(part[label == value])) == 1 for value in (0, 1)):
            result[-1]["skipped"] = f"all equations of one label are in one of the {PARTS} parts"
        else:
            measured.append((result[-1], used, part))
    fits_of_group = PARTS * sum(len(BASELINES[name].settings) for name in fit.baselines)
    with tqdm(total=fits_of_group * len(measured), desc=title, unit="fit", disable=not title, leave=False) as bar:
        for row, used, part in measured:
            share = corpus["label"][used].mean()
            majority = float(100 * max(share, 1 - share))
            scores = {name: _score(corpus, used, part, name, fit.jobs, majority, bar) for name in fit.baselines}
            row |= {"used": len(used), "majority": round(majority, 2), "baselines": scores}
    return result


def sampled(corpus: EquationTable, rows: np.ndarray, limit: int) -> np.ndarray:
    """Return about `limit` of the equations at most (0: all), in order, as complete pairs, always the same ones."""
    if not limit or len(rows) <= limit:
        return rows
    pair = np.unique(corpus["pair"][rows], return_inverse=True)[1]
    rank = np.random.default_rng(0).permutation(pair.max() + 1)
    members = np.bincount(rank[pair])
    fitting = max(1, int(np.searchsorted(np.cumsum(members), limit, side="right")))
    return rows[rank[pair] < fitting]


def _score(
    corpus: EquationTable, rows: np.ndarray, part: np.ndarray, name: str, jobs: int, majority: float, bar: tqdm
) -> dict[str, Any]:
    """Return the accuracy of a baseline with its best setting, cross-validated over parts of the pairs. bar: counts fits."""
    baseline, label = BASELINES[name], corpus["label"][rows]
    features = baseline.features(corpus, rows)
    shares = {}
    for setting in baseline.settings:
        with threadpool_limits(jobs):  # threads of boosting wait in a loop for a processor that others use
            predicted = cross_val_predict(baseline.build(setting, jobs), features, label, cv=PredefinedSplit(part))
        bar.update(PARTS)
        shares[setting] = float((predicted == label).mean())
    best = max(shares, key=lambda setting: shares[setting])
    accuracy, error = 100 * shares[best], 100 * math.sqrt(shares[best] * (1 - shares[best]) / len(rows))
    return {
        "accuracy": round(accuracy, 2),
        "standard_error": round(error, 2),
        "setting": best,
        "above": bool(accuracy - 2 * error > majority),
    }
