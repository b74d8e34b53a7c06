"""Write the pages of results from templates and from the files of experiments: `python -m tools.page`.

A template is a file of `tools/pages` with the path of its page, such as `docs/results.md`. What stands in double braces is
a call of one of FILLERS, with arguments between semicolons. The first one is the folder of an experiment in `figures`,
without `day/`; a row and a column are those of its `table.csv`, a set and two models those of its `pairs.csv`:

    {{ours productivity; Tree-SMU; deep 8-19 accuracy}}         60.2 ± 0.2
    {{lead productivity; deep; Tree-SMU; Tree-LSTM}}            Tree-SMU is ahead of Tree-LSTM by 1.0 points (0.6 to 1.4)
    {{verdict productivity; deep; Tree-SMU; Tree-LSTM}}         reproduced

So no sentence says more than its numbers, and "ahead" and "behind" follow them.
"""

import csv
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from dgl_treestack import atomic
from dgl_treestack.data.records import accuracy
from dgl_treestack.errors import DataError
from dgl_treestack.experiments import collection
from dgl_treestack.experiments.protocol import SCALES, protocols
from dgl_treestack.experiments.reproduce import RECORDS
from dgl_treestack.experiments.tables import PAIRS
from dgl_treestack.results import archive
from dgl_treestack.results.report import paired_t_test, spread
from dgl_treestack.results.run_result import RunResult

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "tools" / "pages"
NOISE = 0.05  # a difference with a larger corrected p-value, over seeds or over equations, is within noise
POWER = 0.8  # of the difference that a test could have seen
_CALL = re.compile(r"\{\{(\w+) (.*?)\}\}", re.DOTALL)


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the pages that have a template, and what stands in them. Raises DataError for a template that names no number."""
    for template in sorted(TEMPLATES.rglob("*.md")):
        yield ROOT / template.relative_to(TEMPLATES), fill(template.read_text(), template)


def fill(text: str, template: Path) -> str:
    """Return a template's text with its calls replaced. Raises DataError that names the template and the call."""

    def replacement(call: re.Match[str]) -> str:
        arguments = [argument.strip() for argument in call[2].split(";")]
        try:
            return FILLERS[call[1]](*arguments)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise DataError(f"{call[0]}: {error!r}.", template, text.count("\n", 0, call.start()) + 1) from None

    return _CALL.sub(replacement, text)


@cache
def _lines(experiment: str, file: str = "table.csv") -> list[dict[str, str]]:
    """Return the lines of a file of an experiment."""
    with (ROOT / "figures" / _folder(experiment) / file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def _folder(experiment: str) -> str:
    return experiment if "/" in experiment else f"day/{experiment}"


def _line(experiment: str, file: str = "table.csv", **values: str) -> dict[str, str]:
    """Return the only line that has some values in some columns. Raises KeyError."""
    found = [line for line in _lines(experiment, file) if values.items() <= line.items()]
    if len(found) != 1:
        raise KeyError(f"{len(found)} lines of {experiment}/{file} with {values}")
    return found[0]


@cache
def _names(experiment: str) -> dict[str, list[str]]:
    """Return the names of an experiment's runs by the label of their row."""
    scale, _, name = _folder(experiment).partition("/")
    planned = collection.plan(protocols()[name], SCALES[scale]).items()
    return {label: [f"{config.name}-{seed}" for config, seed in of_row] for label, of_row in planned}


@cache
def _runs(experiment: str) -> dict[str, RunResult]:
    """Return the runs in the records of an experiment by name."""
    return collection.read_records([ROOT / "figures" / _folder(experiment) / RECORDS])


@cache
def _described(experiment: str) -> dict[str, dict[str, Any]]:
    """Return what is known of the runs in the records of an experiment, by name, without reading the records."""
    metadata = pl.read_parquet_metadata(ROOT / "figures" / _folder(experiment) / RECORDS)
    runs = json.loads(metadata[archive.DESCRIPTION])
    return {f"{tomllib.loads(run['config'])['name']}-{run['seed']}": run["about"] for run in runs}


def ours(experiment: str, row: str, column: str, digits: str = "1") -> str:
    """Our number, with its standard deviation over seeds."""
    line = _line(experiment, model=row, measured=column)
    return spread(float(line["ours"]), float(line["ours sd"]) if line["ours sd"] else None, int(digits))


def mean(*number: str) -> str:
    """Our number without its deviation."""
    return ours(*number).partition(" ")[0]


def paper(experiment: str, row: str, column: str) -> str:
    """The paper's number, with the digits that it prints."""
    return _line(experiment, model=row, measured=column)["paper"] or "-"


def cell(experiment: str, row: str, column: str, digits: str = "1", file: str = "table.csv") -> str:
    """A number of a table with columns of its own. row: what identifies its line, such as `task=addition, model=LSTM`."""
    values = dict(value.split("=") for value in re.split(r", (?=\w+=)", row))
    return f"{float(_line(experiment, file, **values)[column]):.{digits}f}"


def rows(experiment: str, labels: str, columns: str) -> str:
    """Rows of a Markdown table; labels and columns between bars.

    A column is ours, `paper COLUMN` or `parameters`; with `EXPERIMENT: ` before it, of another experiment, where it may lack.
    """

    def number(label: str, column: str) -> str:
        where, _, name = column.rpartition(": ")
        if where and label not in {line["model"] for line in _lines(where)}:
            return "-"
        if name == "parameters":
            return parameters(where or experiment, label)
        return (paper if name.startswith("paper ") else ours)(where or experiment, label, name.removeprefix("paper "))

    names = [name.strip() for name in columns.split("|")]
    lines = [[label, *(number(label, name) for name in names)] for label in map(str.strip, labels.split("|"))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def parameters(experiment: str, row: str) -> str:
    """How many parameters a model has; `-` for a row without a network."""
    labels = {name: label for label, names in _names(experiment).items() for name in names}
    about = {labels.get(name): about for name, about in _described(experiment).items()}
    return f"{about[row]['parameters']:,}" if row in about else "-"


def equations(experiment: str, name: str) -> str:
    """How many equations a set of `pairs.csv` has, or `training`."""
    if name == "training":
        return f"{max(about.get('equations', 0) for about in _described(experiment).values()):,}"
    return f"{int(next(line['records'] for line in _lines(experiment, PAIRS) if line['set'] == name)):,}"


def between(experiment: str, of_set: str, depths: str, first: str, second: str) -> str:
    """Points between two models at some depths of a set, from the records, with the interval over seeds: for any pair."""
    low, high = map(int, depths.split("-"))
    runs = [[_runs(experiment)[name] for name in _names(experiment)[row]] for row in (first, second)]
    by_seed = [{run.seed: accuracy(run.of(of_set, (low, high))) for run in of_row} for of_row in runs]
    accuracies = [[of_row[seed] for of_row in by_seed] for seed in sorted(by_seed[0].keys() & by_seed[1].keys())]
    test = paired_t_test(*map(list, zip(*accuracies, strict=True)))
    if test is None:
        raise ValueError("no two runs on the same seeds")
    return f"{_signed(fmean(one - other for one, other in accuracies))} ({test[1][0]:.1f} to {test[1][1]:.1f})"


def _signed(number: float) -> str:
    return f"{round(number, 1) + 0.0:+.1f}"  # without a sign before zero that rounding leaves: + 0.0 makes it positive


def _pair(experiment: str, of_set: str, first: str, second: str, depths: str = "") -> dict[str, Any]:
    """Return a line of pairs with its numbers, and whether the difference is within noise (`is noise`)."""
    chosen = {"set": of_set, "first": first, "second": second} | ({"depths": depths} if depths else {})
    line: dict[str, Any] = dict(_line(experiment, PAIRS, **chosen))
    line["points"], line["paper"] = float(line["points"]), float(line["paper"]) if line["paper"] else None
    p_values = [float(line[title]) for title in ("Holm, seeds", "Holm, equations") if line[title]]
    return line | {"is noise": max(p_values) > NOISE}


def points(*pair: str) -> str:
    """Points between the models of a pair, with the interval over seeds; within noise, what the test could have seen."""
    line = _pair(*pair)
    noise = f", noise < {seen(*pair) if line['interval'] else '?'}" if line["is noise"] else ""
    return f"{_signed(line['points'])} ({line['interval'] or 'one seed'}){noise}"


def claimed(*pair: str) -> str:
    """Points between the paper's means of a pair."""
    return f"{_pair(*pair)['paper']:+.2f}"


def lead(*pair: str) -> str:
    """A clause on a pair: who is ahead by how much; within noise, the difference that the test could have seen."""
    line = _pair(*pair)
    if line["is noise"]:
        interval = f", {line['interval']}; the test could have seen {seen(*pair)}" if line["interval"] else ", one seed"
        return f"{line['first']} and {line['second']} differ within noise ({_signed(line['points'])} points{interval})"
    size = f"{abs(line['points']):.1f} points"
    if line["interval"]:
        low, high = sorted(abs(float(end)) for end in line["interval"].split(" to "))
        size += f" ({low} to {high})"
    return f"{line['first']} is {'ahead of' if line['points'] > 0 else 'behind'} {line['second']} by {size}"


def perplexity(first: str, second: str) -> str:
    """How far the perplexity of a language model is above that of another one, in per cent, with the interval over seeds."""
    line = _line("language_model", PAIRS, first=first, second=second)
    interval = " to ".join(f"{float(line[end]):.1f}" for end in ("low", "high"))
    return f"{_signed(float(line['ours']))} % ({interval}){', noise' if float(line['Holm, seeds']) > NOISE else ''}"


def seen(*pair: str) -> str:
    """The difference that the t-test over seeds finds in four of five repetitions, at the spread of these seeds.

    Corrected as Holm's method corrects the smallest p-value of the pairs on this set.
    """
    from scipy import stats

    line = _pair(*pair)
    low, high = map(float, line["interval"].split(" to "))
    free, pairs = int(line["seeds"]) - 1, [other for other in _lines(pair[0], PAIRS) if other["set"] == line["set"]]
    needed = stats.t.ppf(1 - NOISE / 2 / len(pairs), free) + stats.t.ppf(POWER, free)
    return f"{(high - low) / 2 / stats.t.ppf(0.975, free) * needed:.1f}"


def verdict(*pair: str) -> str:
    """Whether the paper's order of a pair, or the first ahead of the second, is reproduced."""
    line = _pair(*pair)
    if line["is noise"]:
        return "not"
    return "reproduced" if (line["points"] > 0) == ((line["paper"] or 1) > 0) else "opposite"


_TABLES = (ours, mean, paper, cell, rows, parameters, equations, perplexity)
_PAIRS = (between, points, claimed, lead, seen, verdict)
FILLERS: dict[str, Callable[..., str]] = {filler.__name__: filler for filler in (*_TABLES, *_PAIRS)}

if __name__ == "__main__":
    for page, content in pages():
        atomic.write_text(page, content)
        print(f"{page.relative_to(ROOT)}: {len(content.encode()):,} bytes", file=sys.stderr)
