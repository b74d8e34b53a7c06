"""Tables over run folders: a group-by over their records."""

import csv as csv_format
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from dgl_treestack.data.records import without_cuts
from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.results.differences import AnswersOf, Line, answers, behind_best
from dgl_treestack.results.metrics import METRICS
from dgl_treestack.results.run_result import RunResult, by_config, read

_DIFFERENCES = (
    "Points by which a model is behind {best}, the most accurate on {where} ({count:,} {unit}). For other seeds: 95 % interval "
    "and p-value of a paired t-test. For other {unit}: p-value of a permutation test, whether {permuted} change sign, with "
    "accuracies averaged over seeds; 9,999 draws, so that it is at least 0.0001. {families}Each p-value is for one source of "
    "chance only. Holm: p-values corrected for the number of p-values in the column; intervals are not corrected."
)
_SINGLE_SEED = " A row that shares one seed with {best} is compared with it on that seed alone."
_FAMILIES = "A family is all equations of one root derivation. "


def read_runs(folders: Sequence[Path], *, on: str = "", cuts: bool = True) -> list[RunResult]:
    """Read run folders. on: as of `run_result.read`. cuts: whether equations with a value on a branch cut count."""
    runs = [read(folder, on) for folder in folders]
    return runs if cuts else [replace(run, answers=without_cuts(run.answers)) for run in runs]


def tabulate(folders: Sequence[Path], metric: str = "accuracy", *, depths: bool = False, cuts: bool = True) -> list[Line]:
    """Return the table of run folders, see `rows_of` and `read_runs`."""
    return rows_of(read_runs(folders, cuts=cuts), metric, depths=depths)


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
