"""Differences between the accuracies of models, with their intervals and p-values."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dgl_treestack.data.records import Table
from dgl_treestack.errors import DataError

DRAWS = 9_999  # of signs, so that no p-value is below 0.0001
TESTED = ("interval", "p, seeds", "Holm, seeds", "p, equations", "Holm, equations")
_GROUPS = {"family": "families", "pair": "pairs", "": "records"}


@dataclass(frozen=True, eq=False)
class Answers:
    """Which equations a run judges correctly, in the order of their ids: all arrays are (equations,).

    group: a number for the family of an equation, its pair where records name no family, or itself; `permuted` says which.
    """

    id: np.ndarray
    group: np.ndarray
    correct: np.ndarray
    permuted: str

    @property
    def accuracy(self) -> float:
        """In per cent."""
        return 100 * float(self.correct.mean())


def answers(table: Table) -> Answers:
    """Return the answers of a table; those that are neither right nor wrong are left out."""
    judged = table.filter(pl.col("correct").is_not_null()).with_columns(pl.col("id", "pair", "family").cast(pl.String))
    if "file" in judged.columns:
        judged = judged.with_columns(id=pl.concat_str(pl.col("file"), pl.lit(":"), pl.col("id")))
    # Families, because members of a pair, and equations that were grown from one root, go wrong together. By families,
    # p of one difference rose from 0.0145 to 0.0186, of another from 0.36 to 0.40.
    name = next((name for name in ("family", "pair") if judged[name].fill_null("").ne("").any()), "")
    group = pl.when(pl.col(name or "id").fill_null("") != "").then(pl.col(name or "id")).otherwise(pl.col("id"))
    judged = judged.select("id", "correct", group=group.rank("dense")).sort("id", maintain_order=True)
    return Answers(judged["id"].to_numpy(), judged["group"].to_numpy(), judged["correct"].to_numpy(), _GROUPS[name])


AnswersOf = Mapping[str, Mapping[int, Answers]]  # label of a model -> seed -> answers to the same equations
Line = dict[str, Any]  # of a table


def difference(first: Mapping[int, Answers], second: Mapping[int, Answers], generator: np.random.Generator) -> Line:
    """Compare two models on the same test set: on the seeds that both have, on all if they have none in common.

    first, second: answers by seed. generator: draws the signs of the permutation test.

    Returns `points` between their accuracies, and two-sided p-values. `p, equations`: of a permutation test over `groups`
    families of equations, with accuracies averaged over seeds: would the difference hold on other equations? `permuted` says
    what the groups are, see `Answers`. `p, seeds`, `interval`: of a paired t-test over the seeds that both models have, and the
    95 % interval that belongs to it, in points: would it hold for other initial weights? None with fewer than two, or when all
    differences are equal. Raises DataError when the answers are to different equations.
    """
    common = sorted(first.keys() & second.keys())
    compared = [[model[seed] for seed in common] if common else list(model.values()) for model in (first, second)]
    expected = compared[0][0]
    if not all(np.array_equal(expected.id, of_seed.id) for model in compared for of_seed in model):
        raise DataError("The records are of different equations. Evaluate both on the same file.")
    shares = [np.mean([of_seed.correct for of_seed in model], axis=0) for model in compared]
    _, group_of_equation = np.unique(expected.group, return_inverse=True)
    gaps = np.bincount(group_of_equation, shares[0] - shares[1])
    test = paired_t_test(*([model[seed].accuracy for seed in common] for model in (first, second)))
    return {
        "points": 100 * gaps.sum() / len(expected.id),
        "interval": test and test[1],
        "p, seeds": test and test[0],
        "p, equations": _permutation_test(gaps, generator),
        "groups": len(gaps),
        "permuted": expected.permuted,
    }


def behind_best(answers_of: AnswersOf) -> list[Line]:
    """Compare the most accurate model on some equations with each of the others, see `tested`.

    The first line is the most accurate model. No lines with fewer than two models.
    """
    if len(answers_of) < 2:
        return []
    accuracy = {label: statistics.fmean(run.accuracy for run in by_seed.values()) for label, by_seed in answers_of.items()}
    best = max(accuracy, key=lambda label: accuracy[label])
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


def _permutation_test(gaps: np.ndarray, generator: np.random.Generator, draws: int = DRAWS) -> float:
    """Return how often a sum of gaps with random signs is as far from zero as the sum of the gaps themselves.

    Gaps take few absolute values, so the number of positive signs among equal ones is drawn from a binomial distribution.
    """
    sums, gaps = np.zeros(draws), gaps.round(9)
    for size, count in zip(*np.unique(np.abs(gaps), return_counts=True), strict=True):
        sums += size * (2 * generator.binomial(count, 0.5, draws) - count)
    extreme = 1 + int((np.abs(sums) >= abs(gaps.sum()) - 1e-6).sum())
    return extreme / (draws + 1)
