"""Accuracy against depth of five models of the papers, on their own kind of test set: the figure of the README."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from dgl_treestack.plots._style import by_name
from dgl_treestack.plots.depth import draw_panel
from dgl_treestack.results.run_result import RunResult

MODELS = ("tree_smu", "tree_lstm", "mtree_lstm_stack", "lstm", "tree_rnn_two_layers")


def draw(runs: Sequence[RunResult]) -> Figure:
    """Draw a line per model, of runs of one configuration each, such as those of `productivity`. Other models are left out."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    draw_panel(axes, by_name([run for model in MODELS for run in runs if run.config.model.name == model]), "test")
    axes.set_xlabel(f"{axes.get_xlabel()} ({runs[0].about['equations']:,} training equations)")
    axes.set_ylabel("accuracy (%)")
    axes.legend(loc="upper right")
    return figure
