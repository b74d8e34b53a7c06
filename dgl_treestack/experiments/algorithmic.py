"""Joulin & Mikolov's tables and figures: all models on all tasks, the chosen restart and the distribution over all."""

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from dgl_treestack import atomic, plots
from dgl_treestack.algorithmic.models import configurations, label_of
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.testing import PROTOCOLS
from dgl_treestack.data.records import Table
from dgl_treestack.experiments.protocol import Extent, read_data
from dgl_treestack.experiments.runs import Planned
from dgl_treestack.results import report
from dgl_treestack.results.differences import Line
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs.configuration import StreamTests

TITLE = "Counting, memorization, addition"
SOURCE = "Joulin & Mikolov 2015, Tables 2 and 3, Figures 2 and 3"


COUNTING = ("anbn", "anbncn", "anbncndn", "anb2n", "anbmcnm")
SHOWN_BY_LENGTH = ("memorization", "addition")  # Figure 2
# Task -> figure of a net's actions: Table 3, memorization, and Figure 3.
TRACED = {"anb2n": "actions", "memorization": "actions_memorization", "addition": "actions_addition"}
_SPREAD: Mapping[str, Callable[[list[float]], float]] = {"worst": min, "median": statistics.median, "best": max}


def plan(folder: Path, extent: Extent, seed: int) -> list[Planned]:
    """Return all runs: every size of every model on every task. folder: of the results."""
    configs = [configurations(task, extent.restarts, extent.share, extent.tests) for task in tasks().values()]
    return [(config, seed) for of_task in configs for config in of_task]


def prepare(folder: Path, extent: Extent) -> None:
    """Do nothing: training draws its data."""


def write(folder: Path, runs: Sequence[RunResult], extent: Extent, command: str, seed: int) -> tuple[list[Line], list[str]]:
    """Draw figures. Returns the lines and paragraphs of the table. Restarts take the role of seeds."""
    sizes_of: dict[tuple[str, str], list[RunResult]] = {}
    for run in runs:
        config: Any = run.config
        sizes_of.setdefault((config.task, label_of(config)), []).append(run)
    is_before_rounding = pl.col("rounded").not_()
    chosen = {
        key: min(sizes, key=lambda run: min(run.answers.filter(is_before_rounding)["entropy"].drop_nulls()))
        for key, sizes in sizes_of.items()
    }
    _draw(chosen, folder, extent.tests)
    lines = [line for key, run in chosen.items() for line in _lines(*key, run.answers, extent.tests)]
    origins = list(dict.fromkeys(run.origin for sizes in sizes_of.values() for run in sizes))
    settings = [["task", "model", "size", "optimizer", "learning rate", "updates", "CPU minutes"]]
    settings[0] += ["trained at"] * (len(origins) > 1)
    for (task, label), run in chosen.items():
        config, sizes = run.config, sizes_of[task, label]
        size = ", ".join(f"{name} {value}" for name, value in config.settings.items() if name in ("hidden", "layers"))
        recipe = [config.recipe.optimizer, f"{config.recipe.rate:g}", f"{config.recipe.updates:,}"]
        minutes = sum(run.about["cpu_seconds"] for run in sizes) / 60
        settings.append([tasks()[task].title, label, size, *recipe, f"{minutes:.1f}"])
        if len(origins) > 1:
            places = dict.fromkeys(origins.index(run.origin) + 1 for run in sizes)
            settings[-1].append(", ".join(f"({place})" for place in places))
    numbered = origins if len(origins) == 1 else [f"({i}) {origin}" for i, origin in enumerate(origins, 1)]
    hours = sum(run.about["cpu_seconds"] for run in runs) / 3600
    page, tests = read_data("algorithmic.toml"), extent.tests
    trained_sizes = 100 * (min(tests.largest, 19) - 1) / (tests.largest - 1)  # per cent
    columns = ("emptied, soft", "emptied, hard", "stream, soft", "stream, hard")
    rows = [["task", "model", "paper", *columns, "restarts: worst, median, best", "holds to n"]]
    for line in lines:
        cells = [
            f"{line[column]:.1f} ({line[f'{column}: restarts']}/{line['restarts']})" if column in line else "-"
            for column in columns
        ]
        paper = "-" if line["paper"] is None else f"{line['paper']:g}"
        emptied = [column for column in columns[:2] if column in line]
        spread = "; ".join(", ".join(f"{line[f'{column}: {rank} restart']:.0f}" for rank in _SPREAD) for column in emptied)
        holds = "; ".join(str(line[f"{column}: holds to"]) for column in emptied)
        rows.append([tasks()[line["task"]].title, line["model"], paper, *cells, spread, holds])
    return lines, [
        "# Algorithmic patterns",
        "Joulin & Mikolov 2015, Table 2, and the tasks of Figure 2.",
        report.markdown_table(rows),
        page["caption"].format(extent=tests, far=", ".join(map(str, tests.far)), trained_sizes=trained_sizes),
        page["recipes"],
        "Sizes of the chosen nets. CPU minutes: of all net sizes, training and tests.",
        report.markdown_table(settings),
        f"{command}, seed {seed}. Trained at {'; '.join(numbered)}. Training and testing took {hours:.2f} CPU hours.",
    ]


def _lines(task: str, label: str, answers: Table, tests: StreamTests) -> Iterator[Line]:
    """Yield a line before rounding and, if there is rounding, one after it.

    Per protocol and kind of actions: the per cent of sizes on which the chosen restart, that of lowest entropy, is right, and
    the number of restarts that are right on all sizes.
    """
    paper = read_data("algorithmic.toml")["paper"]
    for (rounded,), of_line in answers.group_by("rounded", maintain_order=True):
        name, printed = f"{label}, rounded" if rounded else label, None
        if name in paper and task in COUNTING:
            printed = paper[name][COUNTING.index(task)]
        line: Line = {"task": task, "model": name, "restarts": of_line["restart"].n_unique(), "paper": printed}
        modes = [mode for mode in ("soft", "hard") if f"emptied, {mode}" in set(of_line["set"].cast(pl.String))]
        for protocol, mode in itertools.product(PROTOCOLS, modes):
            column = f"{protocol}, {mode}"
            of_test = of_line.filter(pl.col("set").cast(pl.String) == column)
            near = of_test.filter(pl.col("depth") <= tests.largest)
            right = near.group_by("restart", maintain_order=True).agg(pl.col("correct").sum(), pl.len()).sort("restart")
            shares = [100 * correct / sizes for _, correct, sizes in right.rows()]
            # On memorization, what one chosen restart shows after rounding is luck: that of one seed was right to
            # length 500 on one machine, to 21 on another.
            best = of_test.row(int(of_test["entropy"].arg_min() or 0), named=True)
            line[column] = shares[best["restart"]]
            line[f"{column}: restarts"] = sum(share == 100.0 for share in shares)
            if protocol == "emptied":
                line |= {f"{column}: {rank} restart": statistic(shares) for rank, statistic in _SPREAD.items()}
                line[f"entropy, {column}"] = best["entropy"]
                by_size = of_test.filter(pl.col("restart") == best["restart"]).sort("depth")
                held = itertools.takewhile(lambda row: row[1], by_size.select("depth", "correct").rows())
                line[f"{column}: holds to"] = max((depth for depth, _ in held), default=0)
        yield line


def _draw(chosen: Mapping[tuple[str, str], RunResult], folder: Path, tests: StreamTests) -> None:
    """Draw accuracy against length (Figure 2), and the actions of nets (Table 3, Figure 3).

    Figure 3 is of addition, which is not learned here; memorization is shown too. A curve has the per cent of
    sequences of a size on which the chosen restart is right, before rounding, from empty memories.
    """
    curves: dict[str, dict[str, dict[int, float]]] = {}
    points = []
    for (task, label), run in chosen.items():
        if task in SHOWN_BY_LENGTH:
            of_test = run.answers.filter(pl.col("rounded").not_(), pl.col("set").cast(pl.String) == "emptied, soft")
            best = of_test["restart"][int(of_test["entropy"].arg_min() or 0)]
            shown = of_test.filter(pl.col("restart") == best, pl.col("depth") <= tests.largest)
            title, curve = tasks()[task].title, {depth: 100 * share for depth, share in shown.select("depth", "share").rows()}
            curves.setdefault(title, {})[label] = curve
            points += [{"task": title, "model": label, "n": n, "per cent": share} for n, share in curve.items()]
        if task in TRACED and run.about.get("trace"):
            rows = run.about["trace"]
            tokens = [tasks()[task].symbols.index(row["symbol"]) for row in rows]
            scored = [False, *tasks()[task].scored(tokens[1:])]  # the first token comes before the sequence
            traced = [row | {"scored": is_scored} for row, is_scored in zip(rows, scored, strict=True)]
            plots.draw("actions", traced, folder / TRACED[task])
    if curves:
        atomic.write_text(folder / "length.csv", report.csv(points))
        plots.draw("algorithmic", curves, folder / "length")
