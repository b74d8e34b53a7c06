"""A table: the paper's numbers and ours, and how models differ, as lines for CSV; with settings and origin as Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import polars as pl

from dgl_treestack.data.records import accuracy
from dgl_treestack.experiments.collection import MAJORITY
from dgl_treestack.experiments.protocol import TRAIN, Compared, Protocol, Results, Row, Scale, read_data
from dgl_treestack.results import archive, report
from dgl_treestack.results.report import AnswersOf, Line, answers, tested
from dgl_treestack.runs.configuration import RunConfig

PAIRS = "pairs.csv"  # the file of `compare_pairs`
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
        for column in protocol.columns:
            mean, deviation = report.over_seeds([column.of(run) for run in runs]) or (None, None)
            paper, paper_deviation = row.paper.get(column.title, (None, None))
            line = {
                "model": row.label,
                "measured": column.title,
                "paper": paper,
                "paper sd": paper_deviation,
                "ours": mean,
                "ours sd": deviation,
                "difference": None if paper is None or mean is None else mean - paper,
                "seeds": " ".join(str(run.seed) for run in runs),
                "commits": " ".join(sorted({run.about["commit"] for run in runs})),
            }
            lines.append(line)
    return lines


def paper_by_depth(protocol: Protocol) -> dict[str, dict[int, float]]:
    """Return the paper's mean by depth of every row that it prints, of the columns of one set and one depth."""
    depth_of = {column.title: column.depths[0] for column in protocol.columns if column.depths and len({*column.depths}) == 1}
    return {row.label: {depth_of[title]: mean for title, (mean, _) in row.paper.items()} for row in protocol.rows if row.paper}


def compare_pairs(protocol: Protocol, answers_on: Mapping[Compared, AnswersOf]) -> list[Line]:
    """Compare the models of `protocol.pairs` on its sets of equations; pairs without runs are left out.

    A line has `set`, `depths`, `records` and their `unit`, `seeds`, the labels `first` and `second`, the points between the
    paper's means (`paper`, None if it does not print both), and what `differences.tested` has of them. answers_on: the
    answers to each of the sets.
    """
    paper_of_row = {row.label: row.paper for row in protocol.rows}
    lines = []
    for compared, answers_of in answers_on.items():
        name, depths = compared.printed
        title = f"test {depths}" if compared.set == "test" else compared.set
        pairs = [pair for pair in protocol.pairs if set(pair) <= answers_of.keys()]
        for line, (first, second) in zip(tested(pairs, answers_of), pairs, strict=True):
            papers = [paper_of_row[label] for label in (first, second)]
            of_set: Line = {
                "set": name,
                "depths": depths,
                "records": len(next(iter(answers_of[first].values()))),
                "unit": compared.unit,
                "seeds": len(answers_of[first].keys() & answers_of[second].keys()),
                "first": first,
                "second": second,
                "paper": None,
            }
            for column in (f"{title} accuracy", title):
                if all(column in paper for paper in papers):
                    of_set["paper"] = round(papers[0][column][0] - papers[1][column][0], 6)
            lines.append(of_set | {column: value for column, value in line.items() if column != "model"})
    return lines


def make(
    protocol: Protocol, results: Results, without_network: Results, scale: Scale, command: str
) -> tuple[list[Line], list[Line], list[str]]:
    """Return the lines of `compare` and of `compare_pairs`, and the paragraphs of the table: numbers, differences, settings.

    results: of the rows of the protocol. without_network: of further rows. command: that makes the table.
    """
    paper = {MAJORITY: {title: (share, None) for title, share in protocol.paper_majority.items()}}
    further = [Row(label, "", paper.get(label, {})) for label in without_network]
    protocol = replace(protocol, rows=[*protocol.rows, *further])
    lines = compare(protocol, results | without_network)
    answers_on: dict[Compared, AnswersOf] = {}
    for compared in protocol.compared:
        by_seed = {
            label: {run.seed: answers(run.of(compared.set, compared.depths)) for run in runs}
            for label, runs in results.items()
            if runs
        }
        is_known = all(len(of_run) for of_label in by_seed.values() for of_run in of_label.values())
        answers_on[compared] = by_seed if is_known else {}  # not all runs may have these equations
    pairs = compare_pairs(protocol, answers_on)
    captions, (low, high) = read_data("tables.toml"), protocol.depths
    rows, untrained = _numbers(protocol, lines)
    source = ". ".join(text for text in (protocol.source, protocol.note) if text)
    sizes, depths = _sizes(results, scale.unit), f" Trained on depths {low}-{high}." if scale.unit == "equations" else ""
    words = {"unit": protocol.unit, "depths": depths, "scale": scale.summary, "sizes": sizes}
    parts = [f"# {protocol.title}", source + ".", report.markdown_table(rows), captions["scale"].format(**words)]
    parts += [_cuts(compared, results) for compared in protocol.compared]
    if untrained:
        parts.append(f"Not trained yet: {', '.join(untrained)}.")
    if TRAIN in protocol.columns:
        parts.append(captions["train"])
    if protocol.baselines:
        parts.append(captions["baselines"])
    for compared, answers_of in answers_on.items():
        name, depths = compared.printed
        if behind := report.comparison(answers_of, f"the set `{name}`, depths {depths}", compared.unit):
            if len(answers_on) > 1 and compared == protocol.compared[0]:
                parts.append(captions["primary"].format(set=name, depths=depths))
            parts += [f"{behind[0]} {captions['chosen'].format(unit=compared.unit)}", behind[1]]
    if pairs:
        parts += [captions["pairs"], report.lines_table(pairs)]
    parts += _settings(protocol, results, scale)
    last = [f"{command}.", _origins(results)]
    seconds = [run.about.get("cpu_seconds", 0.0) for runs in results.values() for run in runs if run.rows]
    if seconds and all(seconds):  # known of all runs
        last.append(captions["cost"].format(hours=sum(seconds) / 3600))
    return lines, pairs, [*parts, " ".join(last)]


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
            ours = "-" if line["ours"] is None else report.spread(line["ours"], line["ours sd"])
            papers = []  # with two decimals or as many as the paper prints; a whole number, as of epochs, with none
            for number in (number for number in (line["paper"], line["paper sd"]) if number is not None):
                decimals = 0 if isinstance(number, int) else max(2, len(str(number).partition(".")[2]))
                papers.append(f"{number:.{decimals}f}")
            cells.append(f"{' ± '.join(papers) or '-'} / {ours}" if line["measured"] in printed else ours)
        rows.append([row.label, *cells, lines_of_row[0]["seeds"]])
    return rows, untrained


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


def _sizes(results: Results, unit: str) -> str:
    """Return a sentence on the sizes of the sets that travel in files of records; sizes that differ are given as a range.

    unit: what they are sets of.
    """
    runs = [run for group in results.values() for run in group]
    sizes = {"training": [run.about.get("equations", 0) for run in runs]}
    sizes |= {"validation": [len(run.of("validation")) for run in runs]}
    sizes |= {"of all depths: test": [len(run.of("test")) for run in runs]}
    left_out = {name for run in runs for name in archive.with_vectors(run.answers)}
    for name in dict.fromkeys(name for run in runs for name in run.sets if name not in left_out):
        sizes[f"`{name}`"] = [len(run.of(name)) for run in runs if name in run.sets]
    texts = [
        f"{name} {min(counts):,}" + (f" to {max(counts):,}" if min(counts) < max(counts) else "")
        for name, counts in sizes.items()
        if counts
    ]
    return f"{unit.capitalize()}: {', '.join(texts)}." if texts else ""


def _cuts(compared: Compared, results: Results) -> str:
    """Return a sentence on what equations with a value on a branch cut change, '' if the records do not say which they are."""
    changes, shares = [], []
    for runs in filter(None, results.values()):
        sets = [run.of(compared.set, compared.depths) for run in runs]
        rest = [table.filter(~pl.col("cut").fill_null(value=False)) for table in sets]
        if not all(0 < len(some) < len(rows) for some, rows in zip(rest, sets, strict=True)):
            return ""
        changes.append(fmean(accuracy(some) - accuracy(rows) for some, rows in zip(rest, sets, strict=True)))
        shares.append(100 * (1 - len(rest[0]) / len(sets[0])))
    if not changes:
        return ""
    name, depths = compared.printed
    words = {"share": shares[0], "unit": compared.unit, "set": name, "depths": depths}
    return read_data("tables.toml")["cuts"].format(**words, least=min(changes), most=max(changes))


def _origins(results: Results) -> str:
    """Return by which commit and on which machine most runs were made, and which rows and seeds by others."""
    rows_of: dict[str, dict[str, list[int]]] = {}
    for label, runs in results.items():
        for run in runs:
            rows_of.setdefault(run.origin, {}).setdefault(label, []).append(run.seed)
    if not rows_of:
        return "There are no runs."
    usual = max(rows_of, key=lambda origin: sum(map(len, rows_of[origin].values())))
    sentences = [f"Trained at {usual}."] + ["The rows are not of one origin."] * (len(rows_of) > 1)
    for origin, seeds_of_row in rows_of.items():
        if origin != usual:
            rows = [
                label if len(seeds) == len(results[label]) else f"{label} (seeds {' '.join(map(str, seeds))})"
                for label, seeds in seeds_of_row.items()
            ]
            sentences.append(f"{'; '.join(rows)}: {origin}.")
    return " ".join(sentences)
