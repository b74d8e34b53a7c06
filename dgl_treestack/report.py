"""Tables over run folders: a group-by over their records."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack import records
from dgl_treestack.plots._runs import RunResult, by_config, read
from dgl_treestack.records import Record

Row = dict[str, Any]


def tabulate(folders: Sequence[Path]) -> list[Row]:
    """One row per configuration: seeds, best epoch, accuracies in percent as (mean, sample standard deviation or None)."""
    return [_row(name, group) for name, group in by_config([read(folder) for folder in folders]).items()]


def _row(name: str, group: Sequence[RunResult]) -> Row:
    limit = group[0].config.data.max_depth
    parts: dict[str, Callable[[RunResult], Sequence[Record]]] = {
        "validation": lambda run: run.validation,
        f"test, depth 1-{limit}" if limit else "test": lambda run: _within(run.test, 0, limit or 10**9),
    }
    if limit:
        deepest = max(record["depth"] for record in group[0].test)
        parts[f"test, depth {limit + 1}-{deepest}"] = lambda run: _within(run.test, limit + 1, 10**9)
    best = [max(run.rows, key=lambda row: row["validation_accuracy"]) for run in group if run.rows]
    return {
        "run": name,
        "model": group[0].config.model.name,
        "seeds": sorted(run.seed for run in group),
        "best epoch": _spread([row["epoch"] for row in best]),
        "train": _spread([row["train_accuracy"] for row in best]),
        **{part: _spread([records.accuracy(chosen(run)) for run in group]) for part, chosen in parts.items()},
    }


def _within(rows: Sequence[Record], low: int, high: int) -> list[Record]:
    return [row for row in rows if low <= row["depth"] <= high]


def _spread(values: Sequence[float]) -> tuple[float, float | None]:
    if not values:
        return float("nan"), None
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
