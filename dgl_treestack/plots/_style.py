"""The common style of figures: the name and colour of every model, lines over seeds, legends."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from dgl_treestack.results.run_result import RunResult, by_config

MARKERS = "osD^vP*X<>"
LINES = ("-", "--", "-.", ":")
# The palette of Okabe and Ito, ordered so that neighbours also differ in lightness.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")

# Model of a configuration -> name for readers, colour, marker, the same in every figure. A variant that is not here, such as
# `mtree_lstm_first_order`, has name and colour of the longest beginning that is.
MODELS: dict[str, tuple[str, str, str]] = {
    "rnn": ("RNN", "#999933", "v"),
    "lstm": ("LSTM", "#E69F00", "s"),
    "list_rnn": ("List RNN", "#AA3377", "X"),
    "stack_rnn": ("Stack RNN", "#6A3D9A", "*"),
    "transformer": ("Transformer", "#CC79A7", "P"),
    "tree_transformer": ("Tree Transformer", "#FF6DB6", "X"),
    "tree_rnn": ("Tree-RNN", "#009E73", "D"),
    "tree_rnn_tanh": ("Tree-RNN", "#009E73", "D"),
    "tree_rnn_stack": ("Tree-RNN+stack", "#4D9221", "<"),
    "tree_rnn_stack_noop": ("Tree-RNN+stack+no-op", "#A6D96A", ">"),
    "tree_rnn_second_order": ("2nd order Tree-RNN", "#44AA99", "X"),
    "tree_lstm": ("Tree-LSTM", "#D55E00", "^"),
    "tree_lstm_stack": ("Tree-LSTM+stack", "#EE8877", "v"),
    "tree_lstm_stack_normalise": ("Tree-LSTM+stack+normalize", "#661100", "P"),
    "tree_lstm_stack_normalise_noop": ("Tree-LSTM+stack+normalize+no-op", "#332288", "s"),
    "tree_smu": ("Tree-SMU", "#0072B2", "o"),
    "tree_smu_pushpop": ("Tree-SMU - no-op", "#8073E5", "X"),
    "tree_queue": ("Tree-Queue", "#777777", "s"),
    "tree_slots": ("Tree-Slots", "#117733", "*"),
    "mtree_rnn": ("MTree-RNN", "#DDAA33", "v"),
    "mtree_rnn_stack": ("M-Tree-RNN+stack", "#997700", "<"),
    "mi_tree_lstm": ("MI-Tree-LSTM", "#AA4499", "<"),
    "mi_tree_lstm_stack": ("MI-Tree-LSTM+stack", "#882255", "P"),
    "mtree_lstm": ("MTree-LSTM", "#A6761D", ">"),
    "mtree_lstm_stack": ("M-Tree-LSTM+stack", "#000000", "*"),
}
MAJORITY: dict[str, Any] = {"color": "0.45", "linewidth": 1.2, "linestyle": (0, (1, 1)), "label": "majority class (chance)"}
LIGHTEST = 0.55  # share of white in the lightest colour of several lines of one model

SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "dgl-treestack",  # ids in SVG are random without it, so that equal figures would have other bytes
    "svg.fonttype": "none",  # text stays text
    "savefig.dpi": 150,
}


def name_of(model: str) -> str:
    """Return the name for readers of a model of a configuration: `Tree-SMU` for `tree_smu`, its own if it is not known."""
    beginning = _beginning(model)
    variant = model.removeprefix(beginning).strip("_").replace("_", " ")
    return ", ".join(filter(None, (MODELS[beginning][0], variant))) if beginning else model


def _beginning(model: str) -> str:
    """Return the longest beginning of a model's name that MODELS has, '' for none."""
    return max((name for name in MODELS if f"{model}_".startswith(f"{name}_")), key=len, default="")


def by_name(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Group runs by the name of their model for readers, with that of the configuration if several have the model."""
    groups = by_config(runs)
    names = {config: name_of(group[0].config.model.name) for config, group in groups.items()}
    shared = [name for name, count in Counter(names.values()).items() if count > 1]
    return {f"{name}, {config}" if name in shared else name: groups[config] for config, name in names.items()}


def line(i: int) -> dict[str, Any]:
    """Return colour, marker and line style of the i-th series of a figure that does not compare models."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": LINES[i % len(LINES)]}


def styles_of(models: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return colour, marker and line style of every label, from the model that it is of.

    Several lines of one model have its colour, lighter and lighter, beginning with that whose label is the model's name alone.
    """
    style_of = {label: line(i) for i, label in enumerate(models)}
    labels_of_model: dict[str, list[str]] = {}
    for label in sorted(models, key=lambda label: label != name_of(models[label])):
        labels_of_model.setdefault(_beginning(models[label]), []).append(label)
    for model, labels in labels_of_model.items():
        if model:
            _, colour, marker = MODELS[model]
            for i, label in enumerate(labels, MARKERS.index(marker)):
                white = LIGHTEST * labels.index(label) / max(2, len(labels) - 1)
                red, green, blue = ((1 - white) * part + white for part in to_rgb(colour))
                style_of[label] = line(i) | {"color": to_hex((red, green, blue))}
    return style_of


def draw_seeds(
    panels: Sequence[Axes],
    groups: Mapping[str, Sequence[RunResult]],
    curve_of: Callable[[RunResult], Mapping[int, float | Sequence[float]]],
) -> dict[str, dict[str, Any]]:
    """Draw a line per label in every panel: the mean over seeds, in a band of one sample standard deviation.

    groups: label -> runs, one per seed. curve_of: gives of a run depth (or epoch) -> value, or a value for every panel. Only
    depths that the curves of all seeds have are drawn. Returns the styles of the labels.
    """
    style_of = styles_of({label: runs[0].config.model.name for label, runs in groups.items()})
    for label, runs in groups.items():
        curves = [{depth: np.atleast_1d(values) for depth, values in curve_of(run).items()} for run in runs]
        depths = [depth for depth in curves[0] if all(depth in curve for curve in curves)]
        title = f"{label} ({len(curves)} seed{'s' if len(curves) > 1 else ''})"
        for field, axes in enumerate(panels):
            of_depths = [[float(curve[depth][field]) for curve in curves] for depth in depths]
            means = [fmean(of_seeds) for of_seeds in of_depths]
            axes.plot(depths, means, **style_of[label], markersize=4.5, label=title)
            if len(curves) > 1:
                deviations = [stdev(of_seeds) for of_seeds in of_depths]
                low, high = np.subtract(means, deviations), np.add(means, deviations)
                axes.fill_between(depths, low, high, color=style_of[label]["color"], alpha=0.15, linewidth=0)
    if any(len(runs) > 1 for runs in groups.values()):
        panels[0].fill_between([], [], color="0.6", alpha=0.4, linewidth=0, label="mean ± one standard deviation over seeds")
    return style_of


def draw_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Draw one legend below all panels, where it covers no line, in as many columns as fit. Equal labels count once."""
    entries: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    inches = 0.45 + 0.07 * max(map(len, entries))  # of an entry
    columns = max(1, int(figure.get_figwidth() / inches))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
