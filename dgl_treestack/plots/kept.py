"""Accuracy beyond the training depths when only the top rows of stacks are kept, or an action is switched off."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.plots._style import MAJORITY, draw_legend, draw_seeds
from dgl_treestack.results.metrics import mean
from dgl_treestack.results.run_result import RunResult

ACTIONS = ("without push", "without pop", "without noop")
WIDTH = 0.8  # of the bars of an action together, where the distance of two actions is 1


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw lines against the number of rows kept, and bars by action: mean over seeds, with one sample standard deviation.

    The runs have the set `less stack`, of `extras.ablation`. If none is deeper than the training set, all count.
    """
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    by_rows, by_action = figure.subplots(1, 2)
    style_of = draw_seeds([by_rows], groups, _by_rows)
    for i, (label, runs) in enumerate(groups.items()):
        tables = [_beyond(run) for run in runs]
        actions = [name for name in ACTIONS if name in tables[0].columns]
        bars = [[mean(table, name, 100) for table in tables] for name in actions]
        x = [position + WIDTH * ((i + 0.5) / len(groups) - 0.5) for position in range(len(actions))]
        spread = [stdev(values) if len(values) > 1 else 0.0 for values in bars]
        colour = style_of[label]["color"]
        by_action.bar(x, [fmean(values) for values in bars], WIDTH / len(groups), yerr=spread, color=colour, edgecolor="white")
    table = _beyond(next(iter(groups.values()))[0])
    depths = table["depth"].unique().sort()
    title = f"{len(table):,} equations of depth {depths[0]}-{depths[-1]}"
    for axes in (by_rows, by_action):
        axes.axhline(records.majority(table), **MAJORITY)
        axes.set(title=title, ylabel="accuracy (%)")
    by_rows.set_xlabel("rows kept after every node")
    by_rows.xaxis.set_major_locator(MaxNLocator(integer=True))
    by_action.set_xlabel("action switched off; black: ± one standard deviation over seeds")
    by_action.set_ylim(0, 100)  # bars begin at 0, lines need not
    by_action.set_xticks(range(len(ACTIONS)), [name.replace("noop", "no-op") for name in ACTIONS])
    draw_legend(figure, [by_rows])
    return figure


def _beyond(run: RunResult) -> Table:
    """Return the answers with less stack beyond the training depths, all if there are none."""
    table = run.of("less stack")
    beyond = table.filter(pl.col("depth") >= run.trained.stop)
    return beyond if len(beyond) else table


def _by_rows(run: RunResult) -> dict[int, float]:
    """Return the accuracy in per cent by the number of rows that are kept."""
    table = _beyond(run)
    names = [name for name in table.columns if name.startswith("rows ")]
    return dict(sorted((int(name.split()[1]), mean(table, name, 100)) for name in names))
