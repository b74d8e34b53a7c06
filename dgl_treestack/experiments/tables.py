"""A table as Markdown: the paper's numbers and ours, how models differ, settings and origin."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import polars as pl

from dgl_treestack.data.records import accuracy
from dgl_treestack.experiments._protocol import TRAIN, Compared, Protocol, read_data
from dgl_treestack.experiments.comparison import Results
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.results import archive, report
from dgl_treestack.results.differences import AnswersOf, Line
from dgl_treestack.runs.configuration import RunConfig

_TRAIN = "train: accuracy during the epoch of the best validation accuracy, while weights change, with dropout if there is any."
_BASELINES = (
    "The last rows have no network: always the label that is more frequent in training, 'correct' if both are as frequent; "
    "and the classifiers of counts of `treestack audit`, which cannot do mathematics, fitted to the training set. What they "
    "reach above the majority class on validation and test equations is a shortcut in the data."
)
_CHOSEN = (
    "The most accurate model was chosen on these {unit}, so that its p-values are too small; the pairs below do not depend on "
    "the results."
)
_PAIRS = (
    "Points by which the first of a pair is ahead of the second; the pairs are the questions of the experiment. Paper: the "
    "points between its printed means. p-values as above, Holm's correction over the pairs of one set."
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
    rows, untrained = _numbers(protocol, lines)
    source = ". ".join(text for text in (protocol.source, protocol.note) if text)
    low, high = protocol.depths
    parts = [f"# {protocol.title}", source + ".", report.markdown_table(rows)]
    parts.append(
        f"{protocol.unit}, mean ± sample standard deviation over the seeds that are done. Trained on depths {low}-{high}. "
        f"Scale: {scale.summary}. {_equations(results)}"
    )
    parts += [text for text in (_cuts(compared, results) for compared in protocol.compared) if text]
    if untrained:
        parts.append(f"Not trained yet: {', '.join(untrained)}.")
    if TRAIN in protocol.columns:
        parts.append(_TRAIN)
    if protocol.baselines:
        parts.append(_BASELINES)
    parts += _behind_the_best(protocol, answers_on)
    if pairs:
        parts += [_PAIRS, report.lines_table(pairs)]
    parts += _settings(protocol, results, scale)
    parts.append(" ".join(filter(None, (f"`{command}`.", _origins(results), _cost(results)))))
    return "\n\n".join(parts) + "\n"


def _numbers(protocol: Protocol, lines: Sequence[Line]) -> tuple[list[list[str]], list[str]]:
    """Return the table of numbers, and the labels of rows without runs. It has those of them that the paper prints."""
    printed = {line["measured"] for line in lines if line["paper"] is not None}
    titles = [column.title for column in protocol.columns]
    rows = [["model", *(f"{title}: paper / ours" if title in printed else title for title in titles), "seeds"]]
    untrained: list[str] = []
    for row in protocol.rows:
        lines_of_row = [line for line in lines if line["model"] == row.label]
        if all(line["ours"] is None for line in lines_of_row):
            untrained.append(row.label)
            if not row.paper:
                continue
        cells = []
        for line in lines_of_row:
            kinds = ("paper", "ours") if line["measured"] in printed else ("ours",)
            numbers = [("-" if line[kind] is None else _NUMBER[kind](line[kind], line[f"{kind} sd"])) for kind in kinds]
            cells.append(" / ".join(numbers))
        rows.append([row.label, *cells, lines_of_row[0]["seeds"]])
    return rows, untrained


def _behind_the_best(protocol: Protocol, answers_on: Mapping[Compared, AnswersOf]) -> list[str]:
    """Return paragraphs and tables on how far models are behind the most accurate one, for every set. Others as `markdown`."""
    parts: list[str] = []
    for compared, answers_of in answers_on.items():
        where = f"the set `{compared.set}`, depths {compared.low}-{compared.high}"
        if behind := report.comparison(answers_of, where, compared.unit):
            if len(answers_on) > 1 and compared == protocol.compared[0]:
                depths = f"depths {compared.low}-{compared.high}"
                parts.append(f"The comparisons on the set `{compared.set}`, {depths}, are the primary ones.")
            parts += [f"{behind[0]} {_CHOSEN.format(unit=compared.unit)}", behind[1]]
    return parts


def _printed(mean: float, deviation: float | None) -> str:
    """Return a paper's number as text, with two decimals or as many as it prints; a whole number, as of epochs, with none."""
    texts = []
    for number in (mean,) if deviation is None else (mean, deviation):
        decimals = 0 if isinstance(number, int) else max(2, len(str(number).partition(".")[2]))
        texts.append(f"{number:.{decimals}f}")
    return " ± ".join(texts)


_NUMBER = {"paper": _printed, "ours": report.spread}


def _settings(protocol: Protocol, results: Results, scale: Scale) -> list[str]:
    """Return paragraphs on the settings of rows with runs, and on what differs from the papers; none without runs."""
    lines: list[list[str]] = []
    rows_by_difference, differs = dict[str, list[str]](), read_data("differs.toml")
    for row in protocol.rows:
        if runs := results.get(row.label):
            config = runs[0].config
            epochs = sorted(len(run.rows) for run in runs)
            trained = f"{epochs[0]}" if epochs[0] == epochs[-1] else f"{epochs[0]} to {epochs[-1]}"
            if config.schedule.early_stopping and (at_limit := epochs.count(config.schedule.epochs)):
                trained += f" ({at_limit} of {len(epochs)} runs at the limit)"
            further = {**{f"model.settings.{key}": value for key, value in config.model.settings.items()}, **row.changes}
            changes = ", ".join(f"{key.removeprefix('model.settings.')} {value}" for key, value in further.items()) or "-"
            parameters = f"{count:,}" if (count := runs[0].about.get("parameters")) else "-"
            lines.append([row.label, parameters, *(str(value(config)) for value in _SETTINGS.values()), trained, changes])
            if row.config in differs:
                rows_by_difference.setdefault(differs[row.config], []).append(row.label)
    if not lines:
        return []
    table = report.markdown_table([["row", "parameters", *_SETTINGS, "epochs, trained", "further"], *lines])
    differences = [f"- {'; '.join(labels)}: {text}." for text, labels in rows_by_difference.items()]
    if scale.differs:
        differences.insert(0, f"- all rows, unless the table of settings says otherwise: {scale.differs}.")
    return ["Settings.", table, *(["What differs from the papers:", "\n".join(differences)] if differences else [])]


def _equations(results: Results) -> str:
    """Return a sentence on the sizes of the sets that travel in files of records; sizes that differ are given as a range."""
    runs = [run for group in results.values() for run in group]
    sizes = {
        "training": [run.about.get("equations", 0) for run in runs],
        "validation": [len(run.of("validation")) for run in runs],
    }
    sizes["of all depths: test"] = [len(run.of("test")) for run in runs]
    left_out = {name for run in runs for name in archive.with_vectors(run.answers)}
    for name in dict.fromkeys(name for run in runs for name in run.sets if name not in left_out):
        sizes[f"`{name}`"] = [len(run.of(name)) for run in runs if name in run.sets]
    texts = [
        f"{name} {min(counts):,}" + (f" to {max(counts):,}" if min(counts) < max(counts) else "")
        for name, counts in sizes.items()
        if counts
    ]
    return f"Equations: {', '.join(texts)}." if texts else ""


def _cuts(compared: Compared, results: Results) -> str:
    """Return a sentence on what equations with a value on a branch cut change, '' if the records do not say which they are."""
    changes, shares = [], []
    for runs in filter(None, results.values()):
        sets = [compared.of(run) for run in runs]
        rest = [table.filter(~pl.col("cut").fill_null(value=False)) for table in sets]
        if not all(0 < len(some) < len(rows) for some, rows in zip(rest, sets, strict=True)):
            return ""
        changes.append(fmean(accuracy(some) - accuracy(rows) for some, rows in zip(rest, sets, strict=True)))
        shares.append(100 * (1 - len(rest[0]) / len(sets[0])))
    if not changes:
        return ""
    return (
        f"{shares[0]:.1f} % of the {compared.unit} of the set `{compared.set}`, depths {compared.low}-{compared.high}, have a "
        f"value on a branch cut or at a branch point; without them accuracies differ by {min(changes):+.1f} to "
        f"{max(changes):+.1f} points."
    )


def _origins(results: Results) -> str:
    """Return by which commit and on which machine most runs were made, and which rows and seeds by others."""
    rows_of: dict[str, dict[str, list[int]]] = {}
    for label, runs in results.items():
        for run in runs:
            rows_of.setdefault(f"commit {run.about['commit']}, {run.about['machine']}", {}).setdefault(label, []).append(
                run.seed
            )
    if not rows_of:
        return "There are no runs."
    usual = max(rows_of, key=lambda origin: sum(map(len, rows_of[origin].values())))
    others = []
    for origin, seeds_of_row in rows_of.items():
        if origin != usual:
            rows = [
                label if len(seeds) == len(results[label]) else f"{label} (seeds {' '.join(map(str, seeds))})"
                for label, seeds in seeds_of_row.items()
            ]
            others.append(f" {'; '.join(rows)}: {origin}.")
    exceptions = f" The rows are not of one origin.{''.join(others)}" if others else ""
    return f"Trained at {usual}.{exceptions}"


def _cost(results: Results) -> str:
    """Return a sentence on the CPU time of training; '' where it is not known of all runs."""
    seconds = [run.about.get("cpu_seconds", 0.0) for runs in results.values() for run in runs if run.rows]
    if not seconds or not all(seconds):
        return ""
    return f"Training took {sum(seconds) / 3600:.2f} CPU hours, with reading the data and evaluating validation and test sets."
