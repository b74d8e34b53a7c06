"""Validation accuracy against epochs: how fast a model learns."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from dgl_treestack.plots import draw_seeds
from dgl_treestack.results.run_result import RunResult, by_config


def draw(runs: Sequence[RunResult]) -> Figure:
    """Draw a line per configuration: mean over seeds, a band of one sample standard deviation."""
    return draw_groups(by_config(runs))


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw the figure for runs that are grouped already: label -> runs that differ in their seed."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    draw_seeds([axes], groups, lambda run: {row["epoch"]: row["validation_accuracy"] for row in run.rows})
    axes.set(xlabel="epoch", ylabel="validation accuracy (%)")
    axes.legend()
    return figure
