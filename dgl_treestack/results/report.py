"""Tables over run folders: a group-by over their records; and differences between models, with intervals and p-values."""

import csv as csv_format
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dgl_treestack.data.records import Table, accuracy
from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.results.metrics import METRICS
from dgl_treestack.results.run_result import RunResult, by_config, read

DRAWS = 9_999  # of signs, so that no p-value is below 0.0001
TESTED = ("interval", "p, seeds", "Holm, seeds", "p, equations", "Holm, equations")
AnswersOf = Mapping[str, Mapping[int, Table]]  # label of a model -> seed -> `answers` to the same equations
Line = dict[str, Any]  # of a table
_DIFFERENCES = (
    "Points by which a model is behind {best}, the most accurate on {where} ({count:,} {unit}). For other seeds: 95 % interval "
    "and p-value of a paired t-test. For other {unit}: p-value of a permutation test, whether {permuted} change sign, with "
    "accuracies averaged over seeds; 9,999 draws, so that it is at least 0.0001. {families}Each p-value is for one source of "
    "chance only. Holm: p-values corrected for the number of p-values in the column; intervals are not corrected."
)
_SINGLE_SEED = " A row that shares one seed with {best} is compared with it on that seed alone."
_FAMILIES = "A family is all equations of one root derivation. "


def tabulate(folders: Sequence[Path], metric: str = "accuracy", *, depths: bool = False, cuts: bool = True) -> list[Line]:
    """Return the table of run folders, see `rows_of`. cuts: whether equations with a value on a branch cut count."""
    return rows_of([read(folder, cuts=cuts) for folder in folders], metric, depths=depths)


def rows_of(runs: Sequence[RunResult], metric: str = "accuracy", *, depths: bool = False) -> list[Line]:
    """Return one row per configuration: its name, model, training equations, seeds and the metric, then statistics over seeds.

    A statistic is a tuple of mean and sample standard deviation, None for a single seed: of the best epoch, and a metric of
    `metrics.METRICS` in per cent in training (accuracy alone, of which a run keeps it), on the validation set and on the test
    set below, within and beyond the training depths, or values of another measure that the configuration groups by. depths:
    also on every depth, or other value, of the test set. A value that is NaN for all seeds is left out.

    Raises ConfigurationError for an unknown metric.
    """
    if metric not in METRICS:
        raise ConfigurationError(unknown("metric", metric, METRICS))
    measure, rows = METRICS[metric], []
    for name, group in by_config(runs).items():
        best_epochs = [epoch for run in group if (epoch := run.best_row())]
        values_of: dict[str, list[float]] = {  # title of a column -> the values of the runs that have one
            "best epoch": [epoch["epoch"] for epoch in best_epochs],
            "train": [epoch["train_accuracy"] for epoch in best_epochs if metric == "accuracy"],
            "validation": [measure(table) for run in group if len(table := run.of("validation"))],
        }
        group_by, trained = group[0].config.data.group_by, group[0].trained
        tests = [run.of("test") for run in group]
        tested = sorted({value for table in tests for value in table[group_by].unique()})
        lowest = min(1, tested[0])
        below = (lowest, trained.start - 1)
        inside = (max(lowest, trained.start), min(trained.stop - 1, tested[-1]))
        beyond = (trained.stop, tested[-1])
        ranges = {"test": (lowest, tested[-1])} if group_by != "depth" else {}
        ranges |= {f"test, {group_by} {low}-{high}": (low, high) for low, high in (below, inside, beyond)}
        ranges |= {str(depth): (depth, depth) for depth in tested if depths}
        for title, (low, high) in ranges.items():
            selected = [table.filter(pl.col(group_by).is_between(low, high)) for table in tests]
            values_of[title] = [measure(table) for table in selected if len(table)]
        row: Line = {"run": name, "model": group[0].config.model.name, "equations": group[0].about.get("equations") or None}
        row |= {"seeds": sorted(run.seed for run in group), "metric": metric}
        rows.append(row | {title: statistic for title, values in values_of.items() if (statistic := over_seeds(values))})
    return rows


def over_seeds(values: Sequence[float]) -> tuple[float, float | None] | None:
    """Return mean and sample standard deviation, None for that of a single value; values that are NaN do not count."""
    values = [value for value in values if not math.isnan(value)]
    if len(values) < 2:
        return (values[0], None) if values else None
    return statistics.fmean(values), statistics.stdev(values)


def markdown(rows: Sequence[Line]) -> str:
    """Return a table as Markdown, numbers as mean ± sample standard deviation."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return markdown_table([columns, *([_cell(row.get(column)) for column in columns] for row in rows)])


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a Markdown table; the first row has the titles."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def comparison(answers_of: AnswersOf, where: str, unit: str) -> list[str]:
    """Return a paragraph and a table on how far models are behind the most accurate one; nothing with fewer than two models.

    where: the equations, in words. unit: what is counted, such as `equations`.
    """
    if not (lines := behind_best(answers_of)):
        return []
    best = lines[0]["model"]
    permuted = next(line["permuted"] for line in lines if line["permuted"])
    words = {"best": best, "where": where, "unit": unit, "permuted": permuted}
    words["families"] = _FAMILIES if "families" in permuted and unit == "equations" else ""
    count = len(next(iter(answers_of[best].values())))
    seeds_of_best = answers_of[best].keys()
    has_single_seeds = any(len(seeds_of_best & by_seed.keys()) == 1 < len(seeds_of_best) for by_seed in answers_of.values())
    caption = _DIFFERENCES + (_SINGLE_SEED if has_single_seeds else "")
    return [caption.format(count=count, **words), lines_table(lines)]


def answers_of_runs(runs: Sequence[RunResult]) -> AnswersOf:
    """Return the answers of runs on their test records, by configuration and seed.

    Raises ConfigurationError for a single configuration, which has nothing to be compared with, DataError for records of
    different files.
    """
    for run in runs:
        if run.about.get("checksums") != runs[0].about.get("checksums"):
            raise DataError(
                f"Its records are of other files than those of {runs[0].folder}. Evaluate all runs on one file.", run.folder
            )
    answers_of = {name: {run.seed: answers(run.of("test")) for run in group} for name, group in by_config(runs).items()}
    if len(answers_of) < 2:
        raise ConfigurationError("There is one configuration only. Name runs of at least two, to compare them.")
    return answers_of


def lines_table(lines: Sequence[Line]) -> str:
    """Return lines of comparisons as a Markdown table; the paper's numbers with all digits, other fractions with three."""
    titles = [title for title in lines[0] if title not in ("permuted", "unit")]
    rows = [titles]
    for line in lines:
        rounded = {title: f"{line[title]:.3g}" for title in titles if title != "paper" and isinstance(line[title], float)}
        rows.append([rounded.get(title, "-" if line[title] is None else str(line[title])) for title in titles])
    return markdown_table(rows)


def csv(rows: Sequence[Line]) -> str:
    """Return a table as CSV, with standard deviations in columns `<title> sd`; empty where a row has no value."""
    file = io.StringIO()
    flat_rows = []
    for row in rows:
        flat: Line = {}
        for name, value in row.items():
            if isinstance(value, tuple):
                flat[name], flat[f"{name} sd"] = value
            else:
                flat[name] = _cell(value)
        flat_rows.append(flat)
    names = list(dict.fromkeys(name for row in flat_rows for name in row))
    # Not polars, which writes 3.25e-7 where Python writes 3.25e-07: committed tables are compared byte for byte.
    writer = csv_format.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat_rows)
    return file.getvalue()


def spread(mean: float, deviation: float | None, digits: int = 1) -> str:
    """Return mean ± standard deviation as text; without a deviation the number alone, an epoch without decimals."""
    if isinstance(mean, int):
        return str(mean)
    return f"{mean:.{digits}f}" if deviation is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return spread(*value)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


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
