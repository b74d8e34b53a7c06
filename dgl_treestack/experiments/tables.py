"""The paper's numbers and ours, as lines for CSV and as Markdown."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dgl_treestack.experiments._protocol import Compared, Protocol
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.results import metrics, report
from dgl_treestack.results.run_result import RunResult

Line = dict[str, Any]
Results = Mapping[str, Sequence[RunResult]]  # label of a model -> its runs, one per seed

_TRAIN = (
    "train: training accuracy in the epoch of the best validation accuracy (it differs by seed), measured during the epoch, "
    "with dropout."
)
_DIFFERENCES = (
    "Points by which a model is behind {best}, the most accurate on {where}, and two p-values: for other equations "
    "(permutation of families, the equations grown from one root) and for other seeds (paired t-test)."
)


def compare(protocol: Protocol, results: Results) -> list[Line]:
    """Return a line per model and column: paper and ours as mean and sample standard deviation, difference, seeds, commits."""
    lines = []
    for row in protocol.rows:
        runs = results[row.label]
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


def differences(compared: Compared, results: Results) -> list[Line]:
    """Compare the most accurate model on some equations with each of the other models, see `metrics.difference`.

    The first line is the most accurate model. No lines where a run has no such equations, or with fewer than two models.
    """
    tests = {label: {run.seed: compared.of(run) for run in runs} for label, runs in results.items() if runs}
    if len(tests) < 2 or not all(rows for by_seed in tests.values() for rows in by_seed.values()):
        return []
    accuracy = {
        label: statistics.fmean(statistics.fmean(bool(row["correct"]) for row in rows) for rows in by_seed.values())
        for label, by_seed in tests.items()
    }
    best = max(accuracy, key=lambda label: accuracy[label])
    lines: list[Line] = [{"model": best, "points": 0.0, "p, equations": None, "p, seeds": None}]
    for label, by_seed in tests.items():
        if label != best:
            gap = metrics.difference(tests[best], by_seed, np.random.default_rng(0))
            lines.append({"model": label, "points": gap.points, "p, equations": gap.equations, "p, seeds": gap.seeds})
    return lines


def markdown(
    protocol: Protocol,
    lines: Sequence[Line],
    differences_on: Mapping[Compared, Sequence[Line]],
    scale: Scale,
    command: str,
) -> str:
    """Return a table as Markdown: a row per model, paper / ours by column, then how the models differ.

    A column that the paper does not have shows ours alone. lines: as from `compare`. differences_on: as from `differences`.
    command: the command that makes the table.
    """
    printed = {line["measured"] for line in lines if line["paper"] is not None}
    titles = [column.title for column in protocol.columns]
    rows = [["model", *(f"{title}: paper / ours" if title in printed else title for title in titles), "seeds"]]
    for row in protocol.rows:
        lines_of_row = [line for line in lines if line["model"] == row.label]
        cells = []
        for line in lines_of_row:
            kinds = ("paper", "ours") if line["measured"] in printed else ("ours",)
            numbers = ["-" if line[kind] is None else report.spread(line[kind], line[f"{kind} sd"]) for kind in kinds]
            cells.append(" / ".join(numbers))
        rows.append([row.label, *cells, lines_of_row[0]["seeds"]])
    source = ". ".join(text for text in (protocol.source, protocol.note) if text)
    parts = [f"# {protocol.title}", source + ".", report.markdown_table(rows)]
    for compared, behind in differences_on.items():
        if behind:
            where = f"the set `{compared.extra}`" if compared.extra else "the test set"
            where += f", depths {compared.low}-{compared.high}"
            parts.append(_DIFFERENCES.format(best=behind[0]["model"], where=where))
            parts.append(
                report.markdown_table([list(behind[0]), *([_cell(value) for value in line.values()] for line in behind)])
            )
    if "train" in titles:
        parts.append(_TRAIN)
    low, high = protocol.depths
    trained = f"Trained on depths {low}-{high}. Scale: {scale.summary}."
    parts.append(f"{protocol.unit}, mean ± sample standard deviation over the seeds that are done. {trained}")
    commits = sorted({commit for line in lines for commit in line["commits"].split()})
    parts.append(f"`{command}`, commits {', '.join(commits) or 'none'}.")
    return "\n\n".join(parts) + "\n"


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
