"""The numbers of a table: the paper's beside ours, and how models differ, as lines for CSV."""

import math
import statistics
from collections.abc import Mapping, Sequence

from dgl_treestack.experiments._protocol import Compared, Protocol
from dgl_treestack.results.differences import Answers, AnswersOf, Line, answers, tested
from dgl_treestack.results.run_result import RunResult

PAIRS = "pairs.csv"  # the file of `compare_pairs`
Results = Mapping[str, Sequence[RunResult]]  # label of a model -> its runs, one per seed


def compare(protocol: Protocol, results: Results) -> list[Line]:
    """Return a line per model and column: paper and ours as mean and sample standard deviation, difference, seeds, commits."""
    lines = []
    for row in protocol.rows:
        runs = results[row.label]
        for column in protocol.columns:
            values_or_nan = [column.of(run) for run in runs]
            values = [value for value in values_or_nan if not math.isnan(value)]
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
                    "commits": " ".join(sorted({run.about["commit"] for run in runs})),
                }
            )
    return lines


def collect_answers(compared: Compared, results: Results) -> AnswersOf:
    """Return the answers of all runs to some equations, label -> seed -> answers; nothing if a run has no such equations."""
    answers_of: dict[str, dict[int, Answers]] = {}
    for label, runs in results.items():
        for run in runs:
            of_run = answers(compared.of(run))
            if not len(of_run.id):
                return {}
            answers_of.setdefault(label, {})[run.seed] = of_run
    return answers_of


def compare_pairs(protocol: Protocol, answers_on: Mapping[Compared, AnswersOf]) -> list[Line]:
    """Compare the models of `protocol.pairs` on its sets of equations; pairs without runs are left out.

    A line has `set`, `depths`, `records` and their `unit`, `seeds`, the labels `first` and `second`, the points between the
    paper's means (`paper`, None if it does not print both), and what `differences.tested` has of them. answers_on: as from
    `collect_answers`.
    """
    printed = {row.label: row.paper for row in protocol.rows}
    lines = []
    for compared, answers_of in answers_on.items():
        pairs = [pair for pair in protocol.pairs if set(pair) <= answers_of.keys()]
        for line, (first, second) in zip(tested(pairs, answers_of), pairs, strict=True):
            numbers = {name: value for name, value in line.items() if name != "model"}
            of_set = {
                "set": compared.set,
                "depths": f"{compared.low}-{compared.high}",
                "records": len(next(iter(answers_of[first].values())).id),
                "unit": compared.unit,
                "seeds": len(answers_of[first].keys() & answers_of[second].keys()),
            }
            title = next((title for title in compared.titles if title in printed[first] and title in printed[second]), None)
            paper = round(printed[first][title][0] - printed[second][title][0], 6) if title else None
            lines.append({**of_set, "first": first, "second": second, "paper": paper, **numbers})
    return lines
