"""The paper's numbers beside ours, as Markdown and CSV."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dgl_treestack import metrics, report
from dgl_treestack.experiments._protocol import Protocol
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.records import Record
from dgl_treestack.results import RunResult

Line = dict[str, Any]


def compare(protocol: Protocol, found: Mapping[str, Sequence[RunResult]]) -> list[Line]:
    """A line per model and column: paper and ours as mean and sample standard deviation, difference, seeds, commits."""
    lines = []
    for row in protocol.rows:
        runs = found[row.label]
        for column in protocol.columns:
            values = [value for value in map(column.measure, runs) if not math.isnan(value)]
            mean = statistics.fmean(values) if values else None
            paper = row.paper.get(column.title)
            lines.append(
                {
                    "model": row.label,
                    "measured": column.title,
                    "paper": paper[0] if paper else None,
                    "paper sd": paper[1] if paper else None,
                    "ours": mean,
                    "ours sd": statistics.stdev(values) if len(values) > 1 else None,
                    "difference": mean - paper[0] if paper and mean is not None else None,
                    "seeds": " ".join(str(run.seed) for run in runs),
                    "commits": " ".join(sorted({run.commit for run in runs})),
                }
            )
    return lines


def differences(protocol: Protocol, found: Mapping[str, Sequence[RunResult]]) -> list[Line]:
    """The most accurate model on the test set against every other, see `metrics.difference`."""
    tests = {row.label: _tests(protocol, found[row.label]) for row in protocol.rows if found[row.label]}
    if len(tests) < 2:
        return []
    accuracy = {label: statistics.fmean(_accuracy(rows) for rows in by_seed.values()) for label, by_seed in tests.items()}
    best = max(accuracy, key=lambda label: accuracy[label])
    lines = []
    for label, rows in tests.items():
        if label != best:
            one = metrics.difference(tests[best], rows, np.random.default_rng(0))
            lines.append({"model": label, "points": one.points, "p, equations": one.equations, "p, seeds": one.seeds})
    return [{"model": best, "points": 0.0, "p, equations": None, "p, seeds": None}, *lines]


def _tests(protocol: Protocol, runs: Sequence[RunResult]) -> dict[int, list[Record]]:
    """By seed, the test records outside the training depths, all where there are none."""
    found = {run.seed: list(run.test) for run in runs}
    low, high = protocol.depths
    beyond = {seed: [row for row in rows if not low <= row["depth"] <= high] for seed, rows in found.items()}
    return beyond if all(beyond.values()) else found


def _accuracy(rows: Sequence[Record]) -> float:
    return statistics.fmean(bool(row["correct"]) for row in rows)


def markdown(protocol: Protocol, lines: Sequence[Line], others: Sequence[Line], scale: Scale, command: str) -> str:
    """The table for people: a row per model, paper / ours by column, ours alone where the paper has nothing."""
    printed = {line["measured"] for line in lines if line["paper"] is not None}
    titles = [column.title for column in protocol.columns]
    rows = [["model", *(f"{title}: paper / ours" if title in printed else title for title in titles), "seeds"]]
    for row in protocol.rows:
        own = [line for line in lines if line["model"] == row.label]
        cells = [_cells(line, line["measured"] in printed) for line in own]
        rows.append([row.label, *cells, own[0]["seeds"]])
    commits = sorted({commit for line in lines for commit in line["commits"].split()})
    parts = [f"# {protocol.title}", protocol.source + ".", report.markdown_table(rows)]
    if others:
        names = list(others[0])
        parts.append(_DIFFERENCES.format(best=others[0]["model"]))
        parts.append(report.markdown_table([names, *([_cell(line[name]) for name in names] for line in others)]))
    low, high = protocol.depths
    parts.append(f"{_UNITS} Trained on depths {low}-{high}. Scale: {scale.summary}; seeds {' '.join(map(str, scale.seeds))}.")
    parts.append(f"`{command}`, commits {', '.join(commits) or 'none'}.")
    return "\n\n".join(parts) + "\n"


_UNITS = "Per cent (epochs apart), mean ± sample standard deviation over seeds."
_DIFFERENCES = (
    "Points behind {best}, the most accurate outside the training depths, and how likely so large a difference is by chance: "
    "on other equations (permutation of pairs), with other seeds (paired t-test)."
)


def csv(lines: Sequence[Line]) -> str:
    """The same for programs: a line per model and column."""
    return report.csv_table(lines)


def _cells(line: Line, both: bool) -> str:
    ours = _number(line["ours"], line["ours sd"])
    return f"{_number(line['paper'], line['paper sd'])} / {ours}" if both else ours


def _number(mean: float | None, spread: float | None) -> str:
    return "-" if mean is None else report.spread(mean, spread)


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
