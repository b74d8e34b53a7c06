"""The paper's numbers beside ours, as Markdown and CSV."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dgl_treestack.data.records import Record
from dgl_treestack.experiments._protocol import Compared, Protocol
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.results import metrics, report
from dgl_treestack.results.run_result import RunResult

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


def differences(compared: Compared, found: Mapping[str, Sequence[RunResult]]) -> list[Line]:
    """The most accurate model on some equations against every other, see `metrics.difference`. None where there are no such
    equations, or fewer than two models."""
    tests = {label: {run.seed: compared.of(run) for run in runs} for label, runs in found.items() if runs}
    if len(tests) < 2 or not all(rows for by_seed in tests.values() for rows in by_seed.values()):
        return []
    accuracy = {label: statistics.fmean(_accuracy(rows) for rows in by_seed.values()) for label, by_seed in tests.items()}
    best = max(accuracy, key=lambda label: accuracy[label])
    lines = []
    for label, rows in tests.items():
        if label != best:
            one = metrics.difference(tests[best], rows, np.random.default_rng(0))
            lines.append({"model": label, "points": one.points, "p, equations": one.equations, "p, seeds": one.seeds})
    return [{"model": best, "points": 0.0, "p, equations": None, "p, seeds": None}, *lines]


def _accuracy(rows: Sequence[Record]) -> float:
    return statistics.fmean(bool(row["correct"]) for row in rows)


def markdown(
    protocol: Protocol, lines: Sequence[Line], others: Mapping[Compared, Sequence[Line]], scale: Scale, command: str
) -> str:
    """The table for people: a row per model, paper / ours by column, ours alone where the paper has nothing; then how models
    differ."""
    printed = {line["measured"] for line in lines if line["paper"] is not None}
    titles = [column.title for column in protocol.columns]
    rows = [["model", *(f"{title}: paper / ours" if title in printed else title for title in titles), "seeds"]]
    for row in protocol.rows:
        own = [line for line in lines if line["model"] == row.label]
        cells = [_cells(line, line["measured"] in printed) for line in own]
        rows.append([row.label, *cells, own[0]["seeds"]])
    commits = sorted({commit for line in lines for commit in line["commits"].split()})
    source = ". ".join(text for text in (protocol.source, protocol.note) if text)
    parts = [f"# {protocol.title}", source + ".", report.markdown_table(rows)]
    for compared, behind in others.items():
        if behind:
            names, where = list(behind[0]), f"the set `{compared.extra}`" if compared.extra else "the test set"
            where += f", depths {compared.low}-{compared.high}"
            parts.append(_DIFFERENCES.format(best=behind[0]["model"], where=where))
            parts.append(report.markdown_table([names, *([_cell(line[name]) for name in names] for line in behind)]))
    if "train" in titles:
        parts.append(_TRAIN)
    low, high = protocol.depths
    trained = f"Trained on depths {low}-{high}. Scale: {scale.summary}."
    parts.append(f"{protocol.unit}, mean ± sample standard deviation over the seeds that are done. {trained}")
    parts.append(f"`{command}`, commits {', '.join(commits) or 'none'}.")
    return "\n\n".join(parts) + "\n"


_TRAIN = "train, ours: while it was trained, dropout on, in the epoch of the best validation accuracy, which differs by seed."
_DIFFERENCES = (
    "Points behind {best}, the most accurate on {where}, and how likely so large a difference is by chance: on other equations "
    "(permutation of pairs, taken as independent; pairs of one family are not quite), with other seeds (paired t-test)."
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
