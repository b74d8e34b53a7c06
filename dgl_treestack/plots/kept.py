"""Accuracy beyond the training depths when only the top rows of stacks are kept, or an action is switched off."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dgl_treestack.plots import draw_seeds, line
from dgl_treestack.results.metrics import mean
from dgl_treestack.results.run_result import RunResult

ACTIONS = ("without push", "without pop", "without noop")
WIDTH = 0.8  # of the bars of an action together, where the distance of two actions is 1


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw lines against the number of rows kept, and bars by action: mean over seeds, with one sample standard deviation.

    The runs have the set `less stack`, of `extras.ablation`. If none is deeper than the training set, all count.
    """
    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    by_rows, by_action = figure.subplots(1, 2)
    # accuracy in per cent beyond the training depths, by the number of rows, and by the action switched off
    rows_of_runs: dict[str, list[dict[int, float]]] = {}
    for i, (label, runs) in enumerate(groups.items()):
        curves = list[dict[str, float]]()
        for run in runs:
            table = run.of("less stack")
            beyond = table.filter(pl.col("depth") >= run.trained.stop)
            names = [name for name in table.columns if name.startswith("rows ") or name in ACTIONS]
            shares = {name: mean(beyond if len(beyond) else table, name, 100) for name in names}
            curves.append({name: value for name, value in shares.items() if not math.isnan(value)})
        of_rows = [{int(name.split()[1]): of[name] for name in of if name.startswith("rows ")} for of in curves]
        rows_of_runs[label] = [dict(sorted(by_number.items())) for by_number in of_rows]
        actions = [name for name in ACTIONS if name in curves[0]]
        bars = [[curve[name] for curve in curves] for name in actions]
        x = [position + WIDTH * ((i + 0.5) / len(groups) - 0.5) for position in range(len(actions))]
        spread = [stdev(values) if len(values) > 1 else 0.0 for values in bars]
        colour = line(i)["color"]
        by_action.bar(x, [fmean(values) for values in bars], WIDTH / len(groups), yerr=spread, color=colour, label=label)
    draw_seeds([by_rows], rows_of_runs, dict)
    by_rows.set(xlabel="rows kept after every node", ylabel="accuracy (%)")
    by_rows.xaxis.set_major_locator(MaxNLocator(integer=True))
    by_rows.legend(fontsize=8)
    by_action.set_ylim(0, 100)  # bars begin at 0, lines need not
    by_action.set_xticks(range(len(ACTIONS)), ACTIONS)
    return figure
