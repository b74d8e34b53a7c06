"""Metrics over records: classification, pairs, calibration, and whether two models differ. Accuracy is in `data.records`."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.errors import DataError


def classification(rows: Sequence[Record]) -> dict[str, float]:
    """Accuracy, precision, recall and F1 in percent; the positive class is a correct equation, as in the papers."""
    from sklearn.metrics import precision_recall_fscore_support

    labelled = [record for record in rows if record["label"] is not None and record["correct"] is not None]
    if not labelled:  # numbers to be met, without labels
        return {"accuracy": records.accuracy(rows)}
    truth = [record["label"] for record in labelled]
    guess = [record["label"] if record["correct"] else 1 - record["label"] for record in labelled]
    precision, recall, f1, _ = precision_recall_fscore_support(truth, guess, average="binary", zero_division=0.0)
    return {"accuracy": records.accuracy(rows), "precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}


def pair_accuracy(rows: Iterable[Record]) -> float:
    """Per cent of matched pairs whose true member has the higher score; ties count half. NaN when there is no whole pair.

    A model may be right about which of two is true without knowing where to draw the line.
    """
    pairs: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.get("pair") and row["label"] in (0, 1) and row["score"] is not None:
            pairs[row["pair"]][row["label"]] = row["score"]
    whole = [pair for pair in pairs.values() if len(pair) == 2]
    if not whole:
        return math.nan
    return 100 * sum(1.0 if pair[1] > pair[0] else 0.5 if pair[1] == pair[0] else 0.0 for pair in whole) / len(whole)


def calibration_error(rows: Sequence[Record]) -> float:
    """The expected calibration error, in per cent; NaN without labelled scores."""
    judged = [row for row in rows if row["label"] in (0, 1) and row["score"] is not None]
    return 100 * calibration(judged).error if judged else math.nan


def _of_classification(name: str) -> Callable[[Sequence[Record]], float]:
    return lambda rows: classification(rows).get(name, math.nan)


# What a table may show of records, in per cent, by name.
METRICS: dict[str, Callable[[Sequence[Record]], float]] = {
    **{name: _of_classification(name) for name in ("accuracy", "precision", "recall", "f1")},
    "pairs": pair_accuracy,
    "calibration": calibration_error,
}


def within(rows: Sequence[Record], kind: str, most: int) -> float:
    """Per cent of blanks whose rank of a kind (raw, class, collapse) is at most so much; NaN without blanks."""
    return 100 * sum(row[kind] <= most for row in rows) / len(rows) if rows else math.nan


@dataclass(frozen=True)
class Calibration:
    """Equal bins of P(correct): what was said (mean probability), what was so (share that holds), equations.

    error: the expected calibration error, the mean difference between the two weighted by equations.
    """

    said: tuple[float, ...]
    so: tuple[float, ...]
    equations: tuple[int, ...]
    error: float


def calibration(rows: Sequence[Record], bins: int = 10) -> Calibration:
    """How far the probabilities sigma(score) can be believed. Raises DataError without labelled scores."""
    judged = [row for row in rows if row["label"] in (0, 1) and row["score"] is not None]
    if not judged:
        raise DataError("There are no labelled scores to calibrate.")
    probability = 1 / (1 + np.exp(-np.clip([row["score"] for row in judged], -700, 700)))
    label = np.array([row["label"] for row in judged], dtype=float)
    place = np.minimum((probability * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    filled = count > 0
    said = np.bincount(place, probability, bins)[filled] / count[filled]
    so = np.bincount(place, label, bins)[filled] / count[filled]
    error = float((np.abs(said - so) * count[filled]).sum() / len(judged))
    return Calibration(tuple(said.tolist()), tuple(so.tolist()), tuple(count[filled].tolist()), error)


@dataclass(frozen=True)
class Difference:
    """Of one model's accuracy from another's, in points, with two-sided p-values.

    equations: a permutation test over matched pairs of equations (an equation without one counts alone), accuracies averaged
    over seeds: would it be so on other equations? seeds: a paired t-test over seeds that both have, None with fewer than two:
    would it be so with other initial values?
    """

    points: float
    equations: float
    seeds: float | None


def difference(
    one: Mapping[int, Sequence[Record]], other: Mapping[int, Sequence[Record]], generator: np.random.Generator
) -> Difference:
    """Of two models on the same test set: records by seed. Raises DataError when their equations are not the same."""
    from scipy import stats

    first, second = _right(one), _right(other)
    if first.keys() != second.keys():
        raise DataError("The records are of different equations. Evaluate both on the same file.")
    by_pair: defaultdict[str, float] = defaultdict(float)
    for key, (pair, right) in first.items():
        by_pair[pair or key] += right - second[key][1]
    gaps = np.array(list(by_pair.values()))
    shared = sorted(one.keys() & other.keys())
    accuracies = [np.array([records.accuracy(model[seed]) for seed in shared]) for model in (one, other)]
    differs = len(shared) > 1 and np.ptp(accuracies[0] - accuracies[1]) > 0
    p_of_seeds = float(stats.ttest_rel(*accuracies).pvalue) if differs else None
    return Difference(100 * gaps.sum() / len(first), _by_chance(gaps, generator), p_of_seeds)


def _by_chance(gaps: np.ndarray, generator: np.random.Generator, draws: int = 9999) -> float:
    """How often a sum of gaps with random signs is as far from zero as their own. Gaps have few sizes; of those of one size as
    many are positive as coins show heads."""
    sums, gaps = np.zeros(draws), gaps.round(9)
    for size, count in zip(*np.unique(np.abs(gaps), return_counts=True), strict=True):
        sums += size * (2 * generator.binomial(count, 0.5, draws) - count)
    extreme = 1 + int((np.abs(sums) >= abs(gaps.sum()) - 1e-6).sum())
    return extreme / (draws + 1)


def _right(by_seed: Mapping[int, Sequence[Record]]) -> dict[str, tuple[str, float]]:
    """id -> (pair, share of seeds that are right)."""
    found: dict[str, tuple[str, list[bool]]] = {}
    for rows in by_seed.values():
        for row in rows:
            if row["correct"] is not None:
                found.setdefault(row["id"], (row.get("pair", ""), []))[1].append(row["correct"])
    return {key: (pair, sum(right) / len(by_seed)) for key, (pair, right) in found.items()}


FEWEST_OF_A_CLASS = 5


@dataclass(frozen=True)
class Clusters:
    """How representations of expressions lie by value class; only classes with at least five members count.

    agreement: per cent of expressions whose nearest neighbour, by cosine, has the same value. chance: what that would be if
    neighbours were drawn at random. silhouette: the mean over all, by cosine, -1 to 1. expressions, classes: how many.
    """

    agreement: float
    chance: float
    silhouette: float
    expressions: int
    classes: int


def clusters(rows: Sequence[Record]) -> Clusters:
    """Of records with `class` and `h`. NaN where there are no two classes of five."""
    from sklearn.metrics import silhouette_score
    from sklearn.metrics.pairwise import cosine_similarity

    rows = in_large_classes(rows)
    names, sizes = np.unique([row["class"] for row in rows], return_counts=True)
    if len(names) < 2:
        return Clusters(math.nan, math.nan, math.nan, len(rows), len(names))
    vectors, classes = np.array([row["h"] for row in rows]), np.array([row["class"] for row in rows])
    near = cosine_similarity(vectors)
    np.fill_diagonal(near, -np.inf)
    agreement = float((classes[near.argmax(1)] == classes).mean())
    chance = float((sizes * (sizes - 1)).sum() / (len(rows) * (len(rows) - 1)))
    silhouette = float(silhouette_score(vectors, classes, metric="cosine"))
    return Clusters(100 * agreement, 100 * chance, silhouette, len(rows), len(names))


def in_large_classes(rows: Sequence[Record]) -> list[Record]:
    """The records whose class has at least five members."""
    count = Counter(row["class"] for row in rows)
    return [row for row in rows if count[row["class"]] >= FEWEST_OF_A_CLASS]
