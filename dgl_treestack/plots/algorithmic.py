"""Accuracy against the length of sequences, a panel per task (Joulin & Mikolov 2015, Figure 2)."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from dgl_treestack.plots import line


def draw_data(curves: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Draw a line per model in a panel per task.

    curves: task -> model -> size of the sequence -> per cent of sequences that are right.
    """
    figure = Figure(figsize=(4.8 * len(curves), 3.8), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for models in curves.values() for label in models))  # same style in every panel
    for axes, (task, models) in zip(panels, curves.items(), strict=True):
        for label, curve in models.items():
            axes.plot(list(curve), list(curve.values()), **line(labels.index(label)), markersize=3, label=label)
        axes.axvspan(0, 19.5, color="0.92", zorder=0)
        axes.set(title=task, xlabel="size of the sequence (trained on the shaded ones)", ylim=(-3, 103))
        axes.legend(fontsize=8)
    panels[0].set_ylabel("sequences that are right (%)")
    return figure
