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
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.data.records import accuracy
from dgl_treestack.errors import DataError
from dgl_treestack.experiments import collection
from dgl_treestack.experiments.protocol import SCALES, protocols
from dgl_treestack.experiments.tables import PAIRS
from dgl_treestack.results.differences import paired_t_test
from dgl_treestack.results.report import over_seeds, spread
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
def _runs(experiment: str) -> dict[str, list[RunResult]]:
    """Return the runs in the records of an experiment by the label of their row."""
    scale, _, name = _folder(experiment).partition("/")
    run_of_name = collection.read_records([ROOT / "figures" / scale / name / "records.parquet"])
    planned = collection.plan(protocols()[name], SCALES[scale])
    names = {label: [f"{config.name}-{seed}" for config, seed in of_row] for label, of_row in planned.items()}
    return {label: [run_of_name[run] for run in of_row if run in run_of_name] for label, of_row in names.items()}


def ours(experiment: str, row: str, column: str, digits: str = "1") -> str:
    """Our number, with its standard deviation over seeds."""
    line = _line(experiment, model=row, measured=column)
    return spread(float(line["ours"]), float(line["ours sd"]) if line["ours sd"] else None, int(digits))


def mean(experiment: str, row: str, column: str, digits: str = "1") -> str:
    """Our number without its deviation."""
    return f"{float(_line(experiment, model=row, measured=column)['ours']):.{digits}f}"


def paper(experiment: str, row: str, column: str) -> str:
    """The paper's number, with the digits that it prints."""
    return _line(experiment, model=row, measured=column)["paper"] or "-"


def cell(experiment: str, row: str, column: str, digits: str = "1") -> str:
    """A number of a table with columns of its own. row: what identifies its line, such as `task=addition, model=LSTM`."""
    values = dict(value.split("=") for value in re.split(r", (?=\w+=)", row))
    return f"{float(_line(experiment, **values)[column]):.{digits}f}"


def rows(experiment: str, labels: str, columns: str) -> str:
    """Rows of a Markdown table; labels and columns between bars.

    A column is ours, `paper COLUMN` or `parameters`; with `EXPERIMENT: ` before it, of another experiment, where it may lack.
    """
    lines = []
    for label in (label.strip() for label in labels.split("|")):
        cells = [label]
        for column in (column.strip() for column in columns.split("|")):
            where, _, name = column.rpartition(": ")
            kind = next((kind for kind in ("paper ", "parameters") if name.startswith(kind)), "")
            source, name = where or experiment, name.removeprefix("paper ")
            if where and label not in {line["model"] for line in _lines(source)}:
                cells.append("-")
            elif kind == "parameters":
                cells.append(parameters(source, label))
            else:
                cells.append((paper if kind else ours)(source, label, name))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parameters(experiment: str, row: str) -> str:
    """How many parameters a model has; `-` for a row without a network."""
    runs = _runs(experiment).get(row)
    return f"{runs[0].about['parameters']:,}" if runs else "-"


def equations(experiment: str, name: str) -> str:
    """How many equations a set has, or `training`."""
    run = next(of_row[0] for of_row in _runs(experiment).values() if of_row and of_row[0].rows)
    return f"{run.about['equations'] if name == 'training' else len(run.of(name)):,}"


def between(experiment: str, of_set: str, depths: str, first: str, second: str) -> str:
    """Points between two models at some depths of a set, from the records, with the interval over seeds: for any pair."""
    low, high = map(int, depths.split("-"))
    by_seed = [{run.seed: accuracy(run.of(of_set, (low, high))) for run in _runs(experiment)[row]} for row in (first, second)]
    seeds = sorted(by_seed[0].keys() & by_seed[1].keys())
    numbers = [[of_row[seed] for seed in seeds] for of_row in by_seed]
    test, means = paired_t_test(*numbers), [over_seeds(of_row) for of_row in numbers]
    if test is None or None in means:
        raise ValueError("no two runs on the same seeds")
    return f"{_signed(means[0][0] - means[1][0])} ({test[1][0]:.1f} to {test[1][1]:.1f})"


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
    """Points between the models of a pair, with the interval over seeds; `noise` if they are within it."""
    line = _pair(*pair)
    return f"{_signed(line['points'])} ({line['interval'] or 'one seed'}){', noise' if line['is noise'] else ''}"


def claimed(*pair: str) -> str:
    """Points between the paper's means of a pair."""
    return _signed(_pair(*pair)["paper"])


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


FILLERS: dict[str, Callable[..., str]] = {
    filler.__name__: filler
    for filler in (ours, mean, paper, cell, rows, parameters, equations, between, points, claimed, lead, perplexity, seen, verdict)
}

if __name__ == "__main__":
    for page, content in pages():
        atomic.write_text(page, content)
        print(f"{page.relative_to(ROOT)}: {len(content.encode()):,} bytes", file=sys.stderr)
