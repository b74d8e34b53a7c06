"""Metrics over records: classification, pairs, calibration, clusters. Accuracy is in `data.records`."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.errors import DataError

MEAN_ERROR = "mean absolute error"  # the one entry of `classification` that is not in per cent
SMALLEST_CLASS = 5  # value classes with fewer expressions are left out of `clusters`
FEWEST_SUBTREES = 50  # heights with fewer are left out of `readouts_by_height`


def classification(rows: Sequence[Record]) -> dict[str, float]:
    """Return accuracy, precision, recall and F1 in per cent; the positive class is a correct equation, as in the papers.

    Rows whose labels are names of classes have accuracy and macro F1: the mean of F1 over the classes that occur as label or as
    answer; if they are of nodes, also the accuracy at roots. Rows whose labels are numbers have R2 and the mean absolute error
    (in units of the labels). Rows without labels, as of numeric tasks of equations, have an accuracy only.
    """
    from sklearn.metrics import f1_score, mean_absolute_error, precision_recall_fscore_support, r2_score

    labelled = [record for record in rows if record["label"] is not None and record["correct"] is not None]
    if not labelled:
        return {"accuracy": records.accuracy(rows)}
    labels = [record["label"] for record in labelled]
    if all("predicted" in record and isinstance(record["label"], str) for record in labelled):
        macro = f1_score(labels, [record["predicted"] for record in labelled], average="macro", zero_division=0.0)
        result = {"accuracy": records.accuracy(rows), "macro F1": 100 * float(macro)}
        at_roots = root_accuracy(rows) if any("node" in row for row in rows) else math.nan
        return result if math.isnan(at_roots) else {**result, "accuracy at roots": at_roots}
    if any(isinstance(label, float) or label not in (0, 1) for label in labels):
        scores = [math.nan if record["score"] is None else record["score"] for record in labelled]
        if not np.isfinite(scores).all():
            return {"accuracy": records.accuracy(rows)}
        r2 = {"R2": 100 * float(r2_score(labels, scores))} if len(set(labels)) > 1 else {}
        return {"accuracy": records.accuracy(rows), **r2, MEAN_ERROR: float(mean_absolute_error(labels, scores))}
    predictions = [record["label"] if record["correct"] else 1 - record["label"] for record in labelled]
    precision, recall, f1, _ = precision_recall_fscore_support(labels, predictions, average="binary", zero_division=0.0)
    return {"accuracy": records.accuracy(rows), "precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}


def confusion(rows: Sequence[Record], classes: Sequence[str]) -> np.ndarray:
    """Return (K, K) how often label i is answered by class j, in per cent of the records of label i; 0 where there are none."""
    from sklearn.metrics import confusion_matrix

    labels, answers = ([row[name] for row in rows] for name in ("label", "predicted"))
    return np.asarray(100 * confusion_matrix(labels, answers, labels=list(classes), normalize="true"))


def root_accuracy(rows: Iterable[Record]) -> float:
    """Return the accuracy in per cent of the records of whole trees, without those of inner nodes and leaves."""
    return records.accuracy(row for row in rows if not row.get("node"))


def pair_accuracy(rows: Iterable[Record]) -> float:
    """Return the per cent of matched pairs whose correct member has the higher score; ties count half.

    A model can rank the members of a pair correctly without placing its decision threshold correctly. NaN without a complete
    pair.
    """
    scores_of_pair: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.get("pair") and _is_verdict(row["label"]) and row["score"] is not None:
            scores_of_pair[row["pair"]][row["label"]] = row["score"]
    complete = [scores for scores in scores_of_pair.values() if len(scores) == 2]
    if not complete:
        return math.nan
    points = [1.0 if scores[1] > scores[0] else 0.5 if scores[1] == scores[0] else 0.0 for scores in complete]
    return 100 * sum(points) / len(complete)


def _is_verdict(label: object) -> bool:
    """Return whether a label is 0 or 1, and no number of a regression."""
    return type(label) is int and label in (0, 1)


def within(rows: Sequence[Record], kind: str, limit: int) -> float:
    """Return the per cent of blanks whose rank of a kind (raw, class, collapse) is at most `limit`; NaN without blanks."""
    return 100 * sum(row[kind] <= limit for row in rows) / len(rows) if rows else math.nan


@dataclass(frozen=True)
class Calibration:
    """Predicted probabilities against observed frequencies, in equal bins of P(correct). Empty bins are left out.

    predicted: mean probability of every bin. observed: share of its equations that are correct. equations: their number.
    error: the expected calibration error, the mean of |predicted - observed| weighted by equations, from 0 to 1.
    """

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    equations: tuple[int, ...]
    error: float


def calibration(rows: Sequence[Record], bins: int = 10) -> Calibration:
    """Compare the probabilities sigmoid(score) with labels. Raises DataError without labelled scores."""
    labelled = [row for row in rows if _is_verdict(row["label"]) and row["score"] is not None]
    if not labelled:
        raise DataError("There are no labelled scores to calibrate.")
    probability = 1 / (1 + np.exp(-np.clip([row["score"] for row in labelled], -700, 700)))
    label = np.array([row["label"] for row in labelled], dtype=float)
    bin_of_row = np.minimum((probability * bins).astype(int), bins - 1)
    count = np.bincount(bin_of_row, minlength=bins)
    filled = count > 0
    predicted = np.bincount(bin_of_row, probability, bins)[filled] / count[filled]
    observed = np.bincount(bin_of_row, label, bins)[filled] / count[filled]
    error = float((np.abs(predicted - observed) * count[filled]).sum() / len(labelled))
    return Calibration(tuple(predicted.tolist()), tuple(observed.tolist()), tuple(count[filled].tolist()), error)


def calibration_error(rows: Sequence[Record]) -> float:
    """Return the expected calibration error in per cent; NaN without labelled scores."""
    # whole numbers are not scores, but what a file of records has in their place
    has_labelled_score = any(_is_verdict(row["label"]) and type(row["score"]) is float for row in rows)
    return 100 * calibration(rows).error if has_labelled_score else math.nan


# Metrics that a table can show, by name; all in per cent, NaN if records lack what a metric needs.
METRICS: dict[str, Callable[[Sequence[Record]], float]] = {
    "accuracy": records.accuracy,
    "precision": lambda rows: classification(rows).get("precision", math.nan),
    "recall": lambda rows: classification(rows).get("recall", math.nan),
    "f1": lambda rows: classification(rows).get("f1", math.nan),
    "macro_f1": lambda rows: classification(rows).get("macro F1", math.nan),
    "roots": root_accuracy,
    "r2": lambda rows: classification(rows).get("R2", math.nan),
    "pairs": pair_accuracy,
    "calibration": calibration_error,
}


@dataclass(frozen=True)
class Clusters:
    """How representations of expressions cluster by value class, over classes with at least five members.

    agreement: per cent of expressions whose nearest neighbour, by cosine, has the same value. chance: the same for neighbours
    drawn at random. silhouette: the mean silhouette score by cosine, -1 to 1. expressions, classes: their numbers.
    """

    agreement: float
    chance: float
    silhouette: float
    expressions: int
    classes: int


def clusters(rows: Sequence[Record]) -> Clusters:
    """Measure how records with `class` and `h` cluster. The measures are NaN with fewer than two classes of five members."""
    from sklearn.metrics import silhouette_score

    agreement = records.accuracy(neighbours(rows))
    rows = in_large_classes(rows)
    names, sizes = np.unique([row["class"] for row in rows], return_counts=True)
    if len(names) < 2:
        return Clusters(math.nan, math.nan, math.nan, len(rows), len(names))
    vectors, classes = np.array([row["h"] for row in rows]), np.array([row["class"] for row in rows])
    chance = float((sizes * (sizes - 1)).sum() / (len(rows) * (len(rows) - 1)))
    silhouette = float(silhouette_score(vectors, classes, metric="cosine"))
    return Clusters(agreement, 100 * chance, silhouette, len(rows), len(names))


def neighbours(rows: Sequence[Record]) -> list[Record]:
    """Return the records, without `h`, of classes with at least five members. rows: have `class` and `h`.

    `correct` says whether the nearest other expression, by cosine, is of the same class. `family` is the class.
    """
    from sklearn.metrics.pairwise import cosine_similarity

    rows = in_large_classes(rows)
    if len(rows) < 2:
        return []
    classes = np.array([row["class"] for row in rows])
    similarity = cosine_similarity(np.array([row["h"] for row in rows]))
    np.fill_diagonal(similarity, -np.inf)
    agrees = (classes[similarity.argmax(1)] == classes).tolist()
    without_vectors = [{name: entry for name, entry in row.items() if name not in ("h", "text", "class")} for row in rows]
    return [
        {**row, "correct": correct, "family": name}
        for row, correct, name in zip(without_vectors, agrees, classes.tolist(), strict=True)
    ]


def in_large_classes(rows: Sequence[Record]) -> list[Record]:
    """Return the records whose class has at least five members."""
    count = Counter(row["class"] for row in rows)
    return [row for row in rows if count[row["class"]] >= SMALLEST_CLASS]


def readouts_by_height(rows: Sequence[Record]) -> dict[int, tuple[float, float]]:
    """Return how well states tell values, by the height of the subtree, from records of `inspection.values`.

    Median absolute error over subtrees, points, real and imaginary parts; correlation of the real parts, the mean over points.
    """
    curve: dict[int, tuple[float, float]] = {}
    for height in sorted({row["depth"] for row in rows}):
        group = [row for row in rows if row["depth"] == height]
        if len(group) < FEWEST_SUBTREES:
            continue
        pairs = [
            [(row["values"][point], row["readouts"][point]) for row in group if row["values"][point] is not None]
            for point in range(len(group[0]["values"]))
        ]
        tables = [np.array(of_point) for of_point in pairs if len(of_point) > 1]  # (subtrees, value or read-out, part)
        error = float(np.median(np.abs(np.concatenate([table[:, 0] - table[:, 1] for table in tables]))))
        varying = [table for table in tables if table[:, 0, 0].std() and table[:, 1, 0].std()]
        correlation = float(np.mean([np.corrcoef(table[:, 0, 0], table[:, 1, 0])[0, 1] for table in varying]))
        curve[height] = error, correlation
    return curve
