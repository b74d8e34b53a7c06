"""Accuracy against the length of sequences, a panel per task (Joulin & Mikolov 2015, Figure 2)."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from dgl_treestack.plots._style import MODELS, draw_legend, styles_of


def draw_data(curves: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Draw a line per model in a panel per task.

    curves: task -> model -> size of the sequence -> per cent of sequences that are right.
    """
    figure = Figure(figsize=(4.8 * len(curves), 4.0), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    labels = dict.fromkeys(label for models in curves.values() for label in models)
    style_of = styles_of({label: next(m for m in MODELS if label.startswith(MODELS[m][0])) for label in labels})
    for axes, (task, models) in zip(panels, curves.items(), strict=True):
        for label, curve in models.items():
            axes.plot(list(curve), list(curve.values()), **style_of[label], markersize=3, label=label)
        axes.axvspan(0, 19.5, color="0.92", zorder=0)
        axes.set(title=task, xlabel="size of the sequence (trained on the shaded ones)", ylim=(-3, 103))
    panels[0].set_ylabel("sequences that are right (%)")
    draw_legend(figure, panels)
    return figure
