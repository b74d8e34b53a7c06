"""Tables over run folders: a group-by over their records."""

import csv as csv_format
import io
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dgl_treestack.data.records import Record
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.results.metrics import METRICS
from dgl_treestack.results.run_result import RunResult, by_config, read

Row = dict[str, Any]


def tabulate(folders: Sequence[Path], metric: str = "accuracy", *, depths: bool = False) -> list[Row]:
    """The rows of run folders. Raises ConfigurationError for an unknown metric."""
    return rows_of([read(folder) for folder in folders], metric, depths=depths)


def rows_of(runs: Sequence[RunResult], metric: str = "accuracy", *, depths: bool = False) -> list[Row]:
    """One row per configuration: training equations, seeds, best epoch, training accuracy, and of validation and test set a
    metric out of `metrics.METRICS`, in percent as (mean, sample standard deviation or None). depths: also of every depth."""
    if metric not in METRICS:
        raise ConfigurationError(unknown("metric", metric, METRICS))
    return [_row(name, group, metric, depths) for name, group in by_config(runs).items()]


def _row(name: str, group: Sequence[RunResult], metric: str, every_depth: bool) -> Row:
    measure = METRICS[metric]
    best = [max(run.rows, key=lambda row: row["validation_accuracy"]) for run in group if run.rows]
    columns: dict[str, list[float]] = {
        "best epoch": [row["epoch"] for row in best],
        "train": [row["train_accuracy"] for row in best],
        "validation": [measure(run.validation) for run in group if run.validation],
    }
    present = sorted({record["depth"] for run in group for record in run.test})
    single = [(str(depth), depth, depth) for depth in present] if every_depth else []
    for title, low, high in [*_depths(group), *single]:
        columns[title] = [measure(part) for part in (_within(run.test, low, high) for run in group) if part]
    return {
        "run": name,
        "model": group[0].config.model.name,
        "equations": group[0].equations or None,
        "seeds": sorted(run.seed for run in group),
        **{title: _spread(known) for title, values in columns.items() if (known := [v for v in values if not math.isnan(v)])},
    }


def _depths(group: Sequence[RunResult]) -> list[tuple[str, int, int]]:
    """(title, from, to) of the depths below those of training, within, and beyond."""
    trained, present = group[0].config.data.depths, [record["depth"] for run in group for record in run.test]
    deepest = max(present)
    parts = [(1, trained.start - 1), (max(1, trained.start), min(trained.stop - 1, deepest)), (trained.stop, deepest)]
    return [(f"test, depth {low}-{high}", low, high) for low, high in parts if any(low <= depth <= high for depth in present)]


def _within(rows: Sequence[Record], low: int, high: int) -> list[Record]:
    return [row for row in rows if low <= row["depth"] <= high]


def _spread(values: Sequence[float]) -> tuple[float, float | None]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def markdown(rows: Sequence[Row]) -> str:
    """The table as Markdown, accuracies as mean ± sample standard deviation."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return markdown_table([columns, *([_cell(row.get(column)) for column in columns] for row in rows)])


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first of them the titles."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def csv(rows: Sequence[Row]) -> str:
    """The table as CSV, the standard deviation of a column beside it."""
    return csv_table([_flat(row) for row in rows])


def csv_table(rows: Sequence[Row]) -> str:
    """Plain rows as CSV, with all columns that one of them has."""
    file = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv_format.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _flat(row: Row) -> Row:
    found: Row = {}
    for name, value in row.items():
        if isinstance(value, tuple):
            found[name], found[f"{name} sd"] = value
        else:
            found[name] = _cell(value)
    return found


def spread(mean: float, deviation: float | None) -> str:
    """Mean ± standard deviation, if there is one."""
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return spread(*value)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)
