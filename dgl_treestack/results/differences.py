"""Differences between the accuracies of models, with their intervals and p-values."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dgl_treestack.data.records import Table, accuracy
from dgl_treestack.errors import DataError

DRAWS = 9_999  # of signs, so that no p-value is below 0.0001
TESTED = ("interval", "p, seeds", "Holm, seeds", "p, equations", "Holm, equations")
AnswersOf = Mapping[str, Mapping[int, Table]]  # label of a model -> seed -> `answers` to the same equations
Line = dict[str, Any]  # of a table


def answers(table: Table) -> Table:
    """Return `id`, `pair`, `family` and `correct` of a table in the order of ids, without answers neither right nor wrong."""
    judged = table.filter(pl.col("correct").is_not_null()).with_columns(pl.col("id", "pair", "family").cast(pl.String))
    if "file" in judged.columns:
        judged = judged.with_columns(id=pl.concat_str(pl.col("file"), pl.lit(":"), pl.col("id")))
    return judged.select("id", "pair", "family", "correct").sort("id", maintain_order=True)


def difference(first: Mapping[int, Table], second: Mapping[int, Table], generator: np.random.Generator) -> Line:
    """Compare two models on the same test set: on the seeds that both have, on all if they have none in common.

    first, second: `answers` by seed. generator: draws the signs of the permutation test.

    Returns `points` between their accuracies, and two-sided p-values. `p, equations`: of a permutation test over `groups`
    families of equations, with accuracies averaged over seeds: would the difference hold on other equations? `permuted` says
    what the groups are: families, pairs where records name no family, or records. `p, seeds`, `interval`: of a paired t-test
    over the seeds that both models have, and the 95 % interval that belongs to it, in points: would it hold for other initial
    weights? None with fewer than two, or when all differences are equal. Raises DataError when the answers are to different
    equations.
    """
    common = sorted(first.keys() & second.keys())
    compared = [[model[seed] for seed in common] if common else list(model.values()) for model in (first, second)]
    expected = compared[0][0]
    if not all(expected["id"].equals(of_seed["id"]) for model in compared for of_seed in model):
        raise DataError("The records are of different equations. Evaluate both on the same file.")
    # Families, because members of a pair, and equations that were grown from one root, go wrong together. By families,
    # p of one difference rose from 0.0145 to 0.0186, of another from 0.36 to 0.40.
    named = {column: expected[column].fill_null("") != "" for column in ("family", "pair")}
    column = next((column for column, has_name in named.items() if has_name.any()), "id")
    group = pl.when(named.get(column, pl.lit(value=True))).then(pl.col(column)).otherwise(pl.col("id")).rank("dense")
    group_of_equation = expected.select(group).to_series().to_numpy() - 1
    shares = [np.mean([of_seed["correct"].to_numpy() for of_seed in model], axis=0) for model in compared]
    gaps = np.bincount(group_of_equation, shares[0] - shares[1])
    # Gaps take few absolute values, so the number of positive signs among equal ones is drawn from a binomial distribution.
    sums, rounded = np.zeros(DRAWS), gaps.round(9)
    for size, count in zip(*np.unique(np.abs(rounded), return_counts=True), strict=True):
        sums += size * (2 * generator.binomial(count, 0.5, DRAWS) - count)
    extreme = 1 + int((np.abs(sums) >= abs(rounded.sum()) - 1e-6).sum())
    test = paired_t_test(*([accuracy(model[seed]) for seed in common] for model in (first, second)))
    return {
        "points": 100 * gaps.sum() / len(expected),
        "interval": test and test[1],
        "p, seeds": test and test[0],
        "p, equations": extreme / (DRAWS + 1),
        "groups": len(gaps),
        "permuted": {"family": "families", "pair": "pairs", "id": "records"}[column],
    }


def behind_best(answers_of: AnswersOf) -> list[Line]:
    """Compare the most accurate model on some equations with each of the others, see `tested`.

    The first line is the most accurate model. No lines with fewer than two models.
    """
    if len(answers_of) < 2:
        return []
    means = {label: statistics.fmean(map(accuracy, by_seed.values())) for label, by_seed in answers_of.items()}
    best = max(means, key=lambda label: means[label])
    lines = tested([(best, label) for label in answers_of if label != best], answers_of)
    return [{"model": best, "points": 0.0, **dict.fromkeys((*TESTED, "permuted"))}, *lines]


def tested(pairs: Sequence[tuple[str, str]], answers_of: AnswersOf) -> list[Line]:
    """Return a line per pair of models: the points by which the first is ahead of the second, their interval and p-values.

    A line has the label of the second (`model`), `points`, the columns `TESTED`, and what was permuted (`permuted`).
    """
    lines: list[Line] = []
    for first, second in pairs:
        line = {"model": second, **difference(answers_of[first], answers_of[second], np.random.default_rng(0))}
        line["points"] = round(line["points"], 6)
        line["interval"] = line["interval"] and "{:.1f} to {:.1f}".format(*line["interval"])
        line["permuted"] = f"{line['groups']:,} {line['permuted']}"
        lines.append(line)
    for title in ("p, seeds", "p, equations"):
        of_title = [line for line in lines if line[title] is not None]
        for line, p_value in zip(of_title, holm([line[title] for line in of_title]), strict=True):
            line[f"Holm, {title.split()[-1]}"] = p_value
        for line in of_title:  # further digits depend on the order of summation
            for name in (title, f"Holm, {title.split()[-1]}"):
                line[name] = float(f"{line[name]:.6g}")
    return [{title: line.get(title) for title in ("model", "points", *TESTED, "permuted")} for line in lines]


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> tuple[float, tuple[float, float]] | None:
    """Return the two-sided p-value of a paired t-test over seeds and the 95 % interval of the mean difference.

    first, second: a number per seed. None with fewer than two seeds, or when all differences are equal but for rounding.
    """
    from scipy import stats

    # Differences that are equal but for rounding once had a p-value.
    if len(first) < 2 or not np.ptp(np.subtract(first, second)) > 1e-9:
        return None
    test = stats.ttest_rel(first, second)
    low, high = test.confidence_interval()
    return float(test.pvalue), (float(low), float(high))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected by Holm's method for being the p-values of one family of tests (Holm 1979)."""
    order = np.argsort(p_values)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(np.asarray(p_values)[order] * np.arange(len(order), 0, -1))
    return np.minimum(corrected, 1.0).tolist()
