"""Validation accuracy against epochs: how fast a model learns."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.figure import Figure

from dgl_treestack.plots._style import by_name, draw_legend, draw_seeds
from dgl_treestack.results.metrics import at_best_epoch
from dgl_treestack.results.run_result import EPOCHS, RunResult


def draw(runs: Sequence[RunResult]) -> Figure:
    """Draw a line per configuration: mean over seeds, a band of one sample standard deviation."""
    return draw_groups(by_name(runs))


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw the figure for runs that are grouped already: label -> runs that differ in their seed.

    A line ends at the mean of the best epochs. A run that stopped before counts with its best epoch.
    """
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    last_of_config = {
        runs[0].config.name: round(fmean(at_best_epoch(run.of(EPOCHS), "epoch") for run in runs)) for runs in groups.values()
    }
    draw_seeds([axes], groups, lambda run: _curve(run, last_of_config[run.config.name]))
    axes.set(xlabel="epoch, to the mean of the best ones", ylabel="validation accuracy (%)")
    draw_legend(figure, [axes])
    return figure


def _curve(run: RunResult, last: int) -> dict[int, float]:
    """Return epoch -> validation accuracy to an epoch, that of the best epoch where the run had stopped."""
    curve = {row["epoch"]: row["validation_accuracy"] for row in run.rows}
    best = at_best_epoch(run.of(EPOCHS), "validation_accuracy")
    return {epoch: curve.get(epoch, best) for epoch in range(min(curve), last + 1)}
