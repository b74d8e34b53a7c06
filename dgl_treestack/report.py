"""Tables over run folders: a group-by over their records."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dgl_treestack import records
from dgl_treestack.records import Record
from dgl_treestack.results import RunResult, by_config, read

Row = dict[str, Any]


def tabulate(folders: Sequence[Path]) -> list[Row]:
    """The rows of run folders."""
    return rows_of([read(folder) for folder in folders])


def rows_of(runs: Sequence[RunResult]) -> list[Row]:
    """One row per configuration: training equations, seeds, best epoch, accuracies in percent as (mean, sample standard
    deviation or None)."""
    return [_row(name, group) for name, group in by_config(runs).items()]


def _row(name: str, group: Sequence[RunResult]) -> Row:
    best = [max(run.rows, key=lambda row: row["validation_accuracy"]) for run in group if run.rows]
    columns: dict[str, list[float]] = {
        "best epoch": [row["epoch"] for row in best],
        "train": [row["train_accuracy"] for row in best],
        "validation": [records.accuracy(run.validation) for run in group if run.validation],
    }
    for title, low, high in _depths(group):
        parts = [_within(run.test, low, high) for run in group]
        columns[title] = [records.accuracy(part) for part in parts if part]
    return {
        "run": name,
        "model": group[0].config.model.name,
        "equations": group[0].equations or None,
        "seeds": sorted(run.seed for run in group),
        **{title: _spread(values) for title, values in columns.items() if values},
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
    lines = [columns, ["---"] * len(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        mean, spread = value
        return f"{mean:.1f}" if spread is None else f"{mean:.1f} ± {spread:.1f}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)
