"""Metrics over the table of answers: classification, pairs, calibration, clusters. Accuracy is in `data.records`.

A metric is a function of a table, which returns NaN if the table lacks what it needs. `METRICS` has those that `report` shows,
`MEASURES` also others, which experiments measure.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

from dgl_treestack.data import records
from dgl_treestack.data.records import Table, accuracy, share

Metric = Callable[[Table], float]
MEAN_ERROR = "mean absolute error"  # the one entry of `classification` that is not in per cent
SMALLEST_CLASS = 5  # value classes with fewer expressions are left out of `clusters`
BINS = 10  # of probabilities, in `calibration_error`
FEWEST_SUBTREES = 50  # heights with fewer are left out of `readouts_by_height`


def classification(table: Table) -> dict[str, float]:
    """Return accuracy, precision, recall and F1 in per cent; the positive class is a correct equation, as in the papers.

    Answers whose labels are names of classes have accuracy and macro F1: the mean of F1 over the classes that occur as label or
    as answer; if they are of nodes, also the accuracy at roots. Those whose labels are numbers have R2 and the mean absolute
    error (in units of the labels). Those without labels, as of numeric tasks of equations, have an accuracy only.
    """
    result = {"accuracy": accuracy(table)}
    judged = table.filter(pl.col("label").is_not_null() & pl.col("correct").is_not_null())
    if not len(judged):
        return result
    label = judged["label"]
    if not label.dtype.is_numeric():
        from sklearn.metrics import f1_score

        macro = f1_score(label.to_list(), judged["predicted"].to_list(), average="macro", zero_division=0.0)
        at_roots = root_accuracy(table) if "node" in table.columns else math.nan
        return {**result, "macro F1": 100 * float(macro)} | ({} if math.isnan(at_roots) else {"accuracy at roots": at_roots})
    if label.dtype.is_float() or not label.is_in([0, 1]).all():
        from sklearn.metrics import mean_absolute_error, r2_score

        if judged["score"].null_count():
            return result
        labels, scores = label.to_numpy(), judged["score"].to_numpy()
        r2 = {"R2": 100 * float(r2_score(labels, scores))} if len(np.unique(labels)) > 1 else {}
        return {**result, **r2, MEAN_ERROR: float(mean_absolute_error(labels, scores))}
    holds = label == 1
    answered = holds == judged["correct"]  # that it holds
    right, positive, predicted = (int(column.sum()) for column in (holds & answered, holds, answered))
    precision, recall, f1 = (
        100 * (count / total) if total else 0.0
        for count, total in ((right, predicted), (right, positive), (2 * right, positive + predicted))
    )
    return {**result, "precision": precision, "recall": recall, "f1": f1}


def confusion(table: Table, classes: tuple[str, ...]) -> np.ndarray:
    """Return (K, K) how often label i is answered by class j, in per cent of the answers to label i; 0 where there are none."""
    from sklearn.metrics import confusion_matrix

    labels, answers = (table[name].to_list() for name in ("label", "predicted"))
    return np.asarray(100 * confusion_matrix(labels, answers, labels=list(classes), normalize="true"))


def root_accuracy(table: Table) -> float:
    """Return the accuracy in per cent at whole trees, without inner nodes and leaves."""
    return accuracy(table.filter(pl.col("node").fill_null(0) == 0) if "node" in table.columns else table)


def pair_accuracy(table: Table) -> float:
    """Return the per cent of matched pairs whose correct member has the higher score; ties count half.

    A model can rank the members of a pair correctly without placing its decision threshold correctly. NaN without a complete
    pair.
    """
    members = _verdicts(table).filter(pl.col("pair").is_not_null())
    correct, incorrect = (members.filter(pl.col("label") == label).select("pair", "score") for label in (1, 0))
    pairs = correct.join(incorrect, on="pair")
    if not len(pairs):
        return math.nan
    higher = int((pairs["score"] > pairs["score_right"]).sum())
    equal = int((pairs["score"] == pairs["score_right"]).sum())
    return 100 * (higher + 0.5 * equal) / len(pairs)


def _verdicts(table: Table) -> Table:
    """Return the answers with a score to labels that are 0 or 1, and no numbers of a regression."""
    is_verdict = pl.col("label").is_in([0, 1]) if table.schema["label"].is_integer() else pl.lit(value=False)
    return table.filter(is_verdict & pl.col("score").is_not_null())


def calibration_error(table: Table) -> float:
    """Return the expected calibration error in per cent; NaN without labelled scores.

    That is the mean of |predicted - observed|, weighted by equations, over equal bins of P(correct) = sigmoid(score): the mean
    probability in a bin, and the share of its equations that are correct.
    """
    labelled = _verdicts(table)
    # whole numbers are not scores, but what a file of records has in their place
    if not len(labelled) or not table.schema["score"].is_float():
        return math.nan
    # exp overflows in float64 above 709
    probability = 1 / (1 + np.exp(-np.clip(labelled["score"].to_numpy(), -700, 700)))
    label = labelled["label"].to_numpy().astype(float)
    bin_of_row = np.minimum((probability * BINS).astype(int), BINS - 1)
    count = np.bincount(bin_of_row, minlength=BINS)
    filled = count > 0
    predicted = np.bincount(bin_of_row, probability, BINS)[filled] / count[filled]
    observed = np.bincount(bin_of_row, label, BINS)[filled] / count[filled]
    return 100 * float((np.abs(predicted - observed) * count[filled]).sum() / len(labelled))


def clusters(table: Table) -> dict[str, float]:
    """Return how rows with `class` and `h` cluster by value class, over classes with at least five members.

    `agreement`: per cent of expressions whose nearest neighbour, by cosine, has the same value. `chance`: the same for
    neighbours drawn at random. `silhouette`: 100 times the mean score by cosine. Nothing with fewer than two classes.
    """
    from sklearn.metrics import silhouette_score

    agreement = accuracy(neighbours(table))
    table = in_large_classes(table)
    names, sizes = np.unique(table["class"].to_list(), return_counts=True)
    if len(names) < 2:
        return {}
    chance = float((sizes * (sizes - 1)).sum() / (len(table) * (len(table) - 1)))
    vectors, classes = np.array(table["h"].to_list()), np.array(table["class"].to_list())
    silhouette = float(silhouette_score(vectors, classes, metric="cosine"))
    return {"agreement": agreement, "chance": 100 * chance, "silhouette": 100 * silhouette}


def neighbours(table: Table) -> Table:
    """Return the rows, without `h`, of classes with at least five members. table: has `class` and `h`.

    `correct` says whether the nearest other expression, by cosine, is of the same class. `family` is the class.
    """
    from sklearn.metrics.pairwise import cosine_similarity

    table = in_large_classes(table)
    without_vectors = table.with_columns(family=pl.col("class")).drop("h", "text", "class")
    if len(table) < 2:
        return without_vectors.clear()
    classes = np.array(table["class"].to_list())
    similarity = cosine_similarity(np.array(table["h"].to_list()))
    np.fill_diagonal(similarity, -np.inf)  # else everything is its own nearest neighbour
    return without_vectors.with_columns(correct=pl.Series(classes[similarity.argmax(1)] == classes))


def in_large_classes(table: Table) -> Table:
    """Return the rows whose class has at least five members."""
    return table.filter(pl.len().over("class") >= SMALLEST_CLASS)


def readouts_by_height(table: Table) -> dict[int, tuple[float, float]]:
    """Return how well states tell values, by the height of the subtree, from records of `extras.values`.

    Median absolute error over subtrees, points, real and imaginary parts; correlation of the real parts, the mean over points.
    """
    curve: dict[int, tuple[float, float]] = {}
    for height, group in records.by(table).items():
        if len(group) < FEWEST_SUBTREES:
            continue
        values, readouts = group["values"].to_list(), group["readouts"].to_list()
        pairs = [
            [(row[point], readout[point]) for row, readout in zip(values, readouts, strict=True) if row[point] is not None]
            for point in range(len(values[0]))
        ]
        tables = [np.array(of_point) for of_point in pairs if len(of_point) > 1]  # (subtrees, value or read-out, part)
        error = float(np.median(np.abs(np.concatenate([table[:, 0] - table[:, 1] for table in tables]))))
        varying = [table for table in tables if table[:, 0, 0].std() and table[:, 1, 0].std()]
        correlation = float(np.mean([np.corrcoef(table[:, 0, 0], table[:, 1, 0])[0, 1] for table in varying]))
        curve[height] = error, correlation
    return curve


def mean(table: Table, column: str, whole: int = 1) -> float:
    """The mean of a column times a number, 100 for the per cent of rows with 1 or true; NaN for a model without the column."""
    return share(table[column], whole) if column in table.columns else math.nan


def top(table: Table, kind: str, limit: int, depth: int = 0) -> float:
    """The per cent of blanks whose rank of a kind (`completion.scoring`) is at most `limit`. depth: smallest of the truth."""
    return share(table.filter(pl.col("blank_depth") >= depth)[kind] <= limit)


def lost(table: Table, column: str) -> float:
    """The points of accuracy that a model loses when rows or an action are taken away, see `extras.stack`."""
    counts_of_rows = [int(name.split()[1]) for name in table.columns if name.startswith("rows ") and table[name].count()]
    if not counts_of_rows or column not in table.columns:
        return math.nan
    return share(table[f"rows {max(counts_of_rows)}"]) - share(table[column])


def read_out(table: Table, height: int, field: int) -> float:
    """A field of `readouts_by_height` for the subtrees of a height, times 100; NaN with too few of them."""
    return 100 * readouts_by_height(table).get(height, (math.nan, math.nan))[field]


def at_best_epoch(epochs: Table, name: str) -> float:
    """A number of metrics.jsonl in the epoch whose weights were evaluated."""
    return float(epochs.filter("best")[name][0]) if len(epochs) else math.nan


def epochs_to(epochs: Table, points: float) -> float:
    """The first epoch whose validation accuracy is at most some points below the best."""
    if not len(epochs):
        return math.nan
    accuracy_of_epoch = pl.col("validation_accuracy")
    return float(epochs.filter(accuracy_of_epoch >= accuracy_of_epoch.max() - points)["epoch"][0])


def entry(table: Table, name: str, of: Callable[[Table], dict[str, float]] = classification) -> float:
    """An entry of the dictionary that a function makes of a table; NaN without it."""
    return of(table).get(name, math.nan)


# Metrics that a table can show, by name; all in per cent.
METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    **{name: partial(entry, name=name) for name in ("precision", "recall", "f1")},
    "macro_f1": partial(entry, name="macro F1"),
    "roots": root_accuracy,
    "r2": partial(entry, name="R2"),
    "pairs": pair_accuracy,
    "calibration": calibration_error,
}
# All metrics, with those that have arguments, which experiments measure.
MEASURES: dict[str, Callable[..., float]] = {
    **METRICS,
    "percent": partial(mean, whole=100),
    "clusters": partial(entry, of=clusters),
    **{metric.__name__: metric for metric in (mean, top, lost, read_out, at_best_epoch, epochs_to)},
}
