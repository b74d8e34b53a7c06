"""The paper's numbers and ours, as lines for CSV and as Markdown."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dgl_treestack.experiments._models import DIFFERS
from dgl_treestack.experiments._protocol import OURS, Compared, Protocol, train
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.results import archive, report
from dgl_treestack.results.differences import Answers, answers, difference, holm
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs.configuration import RunConfig

Line = dict[str, Any]
Results = Mapping[str, Sequence[RunResult]]  # label of a model -> its runs, one per seed
AnswersOf = Mapping[str, Mapping[int, Answers]]  # label of a model -> seed -> answers to the same equations

_TRAIN = "train: accuracy during the epoch of the best validation accuracy, while weights change, with dropout if there is any."
_BASELINES = (
    "The last rows have no network: always the label that is more frequent in training, 'correct' if both are as frequent; "
    "and the classifiers of counts of `treestack audit`, which cannot do mathematics, fitted to the training set. What they "
    "reach above the majority class on validation and test equations is a shortcut in the data."
)
_DIFFERENCES = (
    "Points by which a model is behind {best}, the most accurate on {where}. For other seeds: 95 % interval and p-value of a "
    "paired t-test. For other {unit}: p-value of a permutation of {permuted}, at least 0.0001. Holm: p-values corrected for "
    "the number of p-values in the column. The most accurate model was chosen on these {unit}, so that its p-values are too "
    "small; the pairs below do not depend on the results."
)
_TESTED = ("interval", "p, seeds", "Holm, seeds", "p, equations", "Holm, equations")
_PAIRS = (
    "Points by which the first of a pair is ahead of the second; the pairs are the questions of the experiment. p-values as "
    "above, Holm's correction over the pairs of one set."
)
_SETTINGS: dict[str, Callable[[RunConfig], Any]] = {
    "model": lambda config: config.model.name,
    "hidden": lambda config: config.model.hidden,
    "batch": lambda config: config.batch_size,
    "dropout": lambda config: config.model.dropout,
    "optimizer": lambda config: config.optimizer.method,
    "learning rate": lambda config: config.optimizer.learning_rate,
    "weight decay": lambda config: config.optimizer.weight_decay,
    "early stopping": lambda config: config.schedule.early_stopping or "-",
    "epochs, at most": lambda config: config.schedule.epochs,
}


def compare(protocol: Protocol, results: Results) -> list[Line]:
    """Return a line per model and column: paper and ours as mean and sample standard deviation, difference, seeds, commits."""
    lines = []
    for row in protocol.rows:
        runs = results[row.label]
        values_of_runs = [_measured(protocol, run) for run in runs]
        for column in protocol.columns:
            values = [values[column.title] for values in values_of_runs if not math.isnan(values[column.title])]
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


def _measured(protocol: Protocol, run: RunResult) -> dict[str, float]:
    """Return the values of all columns for a run, by title."""
    listed = replace(  # every column reads the records again
        run,
        validation=list(run.validation),
        test=list(run.test),
        more={name: list(rows) for name, rows in run.more.items()},
    )
    return {column.title: column.of(listed) for column in protocol.columns}


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


def differences(answers_of: AnswersOf) -> list[Line]:
    """Compare the most accurate model on some equations with each of the others, see `results.differences.difference`.

    The first line is the most accurate model. No lines with fewer than two models. answers_of: as from `collect_answers`.
    """
    if len(answers_of) < 2:
        return []
    accuracy = {label: statistics.fmean(run.accuracy for run in by_seed.values()) for label, by_seed in answers_of.items()}
    best = max(accuracy, key=lambda label: accuracy[label])
    lines = _tested([(best, label) for label in answers_of if label != best], answers_of)
    return [{"model": best, "points": 0.0, **dict.fromkeys((*_TESTED, "permuted"))}, *lines]


def compare_pairs(protocol: Protocol, answers_on: Mapping[Compared, AnswersOf]) -> list[Line]:
    """Compare the models of `protocol.pairs` on its sets of equations; pairs without runs are left out.

    A line has `set`, `depths`, `records` and their `unit`, `seeds`, the labels `first` and `second`, and what `differences` has
    of them. answers_on: as from `collect_answers`.
    """
    lines = []
    for compared, answers_of in answers_on.items():
        pairs = [pair for pair in protocol.pairs if set(pair) <= answers_of.keys()]
        for line, (first, second) in zip(_tested(pairs, answers_of), pairs, strict=True):
            numbers = {name: value for name, value in line.items() if name != "model"}
            of_set = {
                "set": compared.set,
                "depths": f"{compared.low}-{compared.high}",
                "records": len(next(iter(answers_of[first].values())).id),
                "unit": compared.unit,
                "seeds": len(answers_of[first].keys() & answers_of[second].keys()),
            }
            lines.append({**of_set, "first": first, "second": second, **numbers})
    return lines


def _tested(pairs: Sequence[tuple[str, str]], answers_of: AnswersOf) -> list[Line]:
    """Return a line per pair of models: the points by which the first is ahead of the second, their interval and p-values.

    answers_of: as from `collect_answers`.
    """
    lines: list[Line] = []
    for first, second in pairs:
        gap = difference(answers_of[first], answers_of[second], np.random.default_rng(0))
        interval = "{:.1f} to {:.1f}".format(*gap.interval) if gap.interval else None
        of_equations = {"p, equations": gap.equations, "permuted": f"{gap.groups:,} {gap.permuted}"}
        of_seeds = {"points": round(gap.points, 6), "interval": interval, "p, seeds": gap.seeds}
        lines.append({"model": second, **of_seeds, **of_equations})
    for title in ("p, seeds", "p, equations"):
        of_title = [line for line in lines if line[title] is not None]
        for line, p_value in zip(of_title, holm([line[title] for line in of_title]), strict=True):
            line[f"Holm, {title.split()[-1]}"] = p_value
        for line in of_title:  # further digits depend on the order of summation
            for name in (title, f"Holm, {title.split()[-1]}"):
                line[name] = float(f"{line[name]:.6g}")
    return [{title: line.get(title) for title in ("model", "points", *_TESTED, "permuted")} for line in lines]


def markdown(
    protocol: Protocol,
    results: Results,
    lines: Sequence[Line],
    answers_on: Mapping[Compared, AnswersOf],
    pairs: Sequence[Line],
    scale: Scale,
    command: str,
) -> str:
    """Return a table as Markdown: a row per model, paper / ours by column, how the models differ, settings and origin.

    A column that the paper does not have shows ours alone. lines: as from `compare`. answers_on: as from
    `collect_answers`. pairs: as from `compare_pairs`. command: the command that makes the table.
    """
    printed = {line["measured"] for line in lines if line["paper"] is not None}
    titles = [column.title for column in protocol.columns]
    rows = [["model", *(f"{title}: paper / ours" if title in printed else title for title in titles), "seeds"]]
    for row in protocol.rows:
        lines_of_row = [line for line in lines if line["model"] == row.label]
        cells = []
        for line in lines_of_row:
            kinds = ("paper", "ours") if line["measured"] in printed else ("ours",)
            numbers = [("-" if line[kind] is None else _NUMBER[kind](line[kind], line[f"{kind} sd"])) for kind in kinds]
            cells.append(" / ".join(numbers))
        rows.append([row.label, *cells, lines_of_row[0]["seeds"]])
    source = ". ".join(text for text in (protocol.source, protocol.note) if text)
    low, high = protocol.depths
    parts = [f"# {protocol.title}", source + ".", report.markdown_table(rows)]
    parts.append(
        f"{protocol.unit}, mean ± sample standard deviation over the seeds that are done. Trained on depths {low}-{high}. "
        f"Scale: {scale.summary}. {_equations(results)}"
    )
    if any(column.measure is train for column in protocol.columns):
        parts.append(_TRAIN)
    if protocol.baselines:
        parts.append(_BASELINES)
    for compared, answers_of in answers_on.items():
        behind = differences(answers_of)
        if behind:
            equations = len(next(iter(answers_of[behind[0]["model"]].values())).id)
            where = f"the set `{compared.set}`, depths {compared.low}-{compared.high} ({equations:,} {compared.unit})"
            permuted = next(line["permuted"] for line in behind if line["permuted"])
            words = {"best": behind[0]["model"], "where": where, "unit": compared.unit, "permuted": permuted}
            if len(answers_on) > 1 and compared == protocol.compared[0]:
                parts.append("The first comparison is the primary one.")
            parts += [_DIFFERENCES.format(**words), _table(behind)]
    if pairs:
        parts += [_PAIRS, _table(pairs)]
    parts += _settings(protocol, results)
    parts.append(" ".join(filter(None, (f"`{command}`.", _origins(results), _cost(results)))))
    return "\n\n".join(parts) + "\n"


def _printed(mean: float, deviation: float | None) -> str:
    """Return a paper's number as text, with two decimals or as many as it prints; a whole number, as of epochs, with none."""
    texts = []
    for number in (mean,) if deviation is None else (mean, deviation):
        decimals = 0 if isinstance(number, int) else max(2, len(str(number).partition(".")[2]))
        texts.append(f"{number:.{decimals}f}")
    return " ± ".join(texts)


_NUMBER = {"paper": _printed, "ours": report.spread}


def _settings(protocol: Protocol, results: Results) -> list[str]:
    """Return paragraphs on the settings of rows with runs, and on what differs from the papers besides; none without runs."""
    lines: list[list[str]] = []
    rows_by_difference: dict[str, list[str]] = {}
    for row in protocol.rows:
        if runs := results.get(row.label):
            config = runs[0].config
            epochs = sorted(len(run.rows) for run in runs)
            trained = f"{epochs[0]}" if epochs[0] == epochs[-1] else f"{epochs[0]} to {epochs[-1]}"
            further = {**{f"model.settings.{key}": value for key, value in config.model.settings.items()}, **row.changes}
            changes = ", ".join(f"{key.removeprefix('model.settings.')} {value}" for key, value in further.items()) or "-"
            parameters = f"{runs[0].parameters:,}" if runs[0].parameters else "-"
            lines.append([row.label, parameters, *(str(value(config)) for value in _SETTINGS.values()), trained, changes])
            if row.config in DIFFERS and protocol.source != OURS:
                rows_by_difference.setdefault(DIFFERS[row.config], []).append(row.label)
    if not lines:
        return []
    table = report.markdown_table([["row", "parameters", *_SETTINGS, "epochs, trained", "further"], *lines])
    listed = "\n".join(f"- {', '.join(labels)}: {text}." for text, labels in rows_by_difference.items())
    return ["Settings.", table, *(["What else differs from the papers:", listed] if listed else [])]


def _equations(results: Results) -> str:
    """Return a sentence on the sizes of the sets that travel in files of records; sizes that differ are given as a range."""
    runs = [run for group in results.values() for run in group]
    sizes = {"training": [run.equations for run in runs]}
    sizes |= {"validation": [len(run.validation) for run in runs], "test": [len(run.test) for run in runs]}
    for name in dict.fromkeys(name for run in runs for name in run.more):
        if not any(archive.has_vectors(run.more[name]) for run in runs if name in run.more):
            sizes[f"`{name}`"] = [len(run.more[name]) for run in runs if name in run.more]
    texts = [
        f"{name} {min(counts):,}" + (f" to {max(counts):,}" if min(counts) < max(counts) else "")
        for name, counts in sizes.items()
        if counts
    ]
    return f"Equations: {', '.join(texts)}." if texts else ""


def _origins(results: Results) -> str:
    """Return by which commit and on which machine runs were made; with several, which rows and seeds by which."""
    rows_of: dict[str, dict[str, list[int]]] = {}
    for label, runs in results.items():
        for run in runs:
            rows_of.setdefault(f"commit {run.commit}, {run.machine}", {}).setdefault(label, []).append(run.seed)
    if len(rows_of) < 2:
        return f"Trained at {next(iter(rows_of), 'no commit: there are no runs')}."
    texts = []
    for origin, seeds_of_row in rows_of.items():
        rows = "; ".join(f"{label} (seeds {' '.join(map(str, seeds))})" for label, seeds in seeds_of_row.items())
        texts.append(f"{origin}: {rows}.")
    return "The rows are not of one origin. " + " ".join(texts)


def _cost(results: Results) -> str:
    """Return a sentence on the CPU time of training; '' where it is not known of all runs."""
    seconds = [run.cpu_seconds for runs in results.values() for run in runs if run.rows]
    if not seconds or not all(seconds):
        return ""
    return f"Training took {sum(seconds) / 3600:.2f} CPU hours, with reading the data and evaluating validation and test sets."


def _table(lines: Sequence[Line]) -> str:
    shown = [{title: value for title, value in line.items() if title not in ("permuted", "unit")} for line in lines]
    return report.markdown_table([list(shown[0]), *([_cell(value) for value in line.values()] for line in shown)])


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
