"""Accuracy against the number of training equations: how much data a model needs, and whether more would help."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.errors import DataError
from dgl_treestack.plots import line
from dgl_treestack.plots.depth import DEEP
from dgl_treestack.results.report import over_seeds, rows_of
from dgl_treestack.results.run_result import RunResult, by_config

_NOT_DRAWN = ("best epoch", "train")
MIN_RATIO = 1.3  # minimum ratio of two neighbouring sizes for a tick at the smaller one


def draw(runs: Sequence[RunResult], label_of_model: Mapping[str, str] | None = None) -> Figure:
    """Draw a line per part of the data; for several models a panel per part and a line per model.

    A part is a column of `results.report.rows_of`, such as validation, or the set `deep`, if all runs have records of it. A
    point is the mean over seeds, its bar one sample standard deviation.

    label_of_model: labels in the legend, the models' names by default.
    Raises DataError when a run does not say how many equations it was trained on.
    """
    labels = label_of_model or {}
    for run in runs:
        if not run.about.get("equations"):
            raise DataError("The run does not say how many equations it was trained on. Train it again.", run.folder)
    groups, rows = by_config(runs), sorted(rows_of(runs), key=lambda row: row["equations"])
    names_of_deep = [name for name in runs[0].sets if DEEP.fullmatch(name) and all(len(run.of(name)) for run in runs)]
    for row, name in itertools.product(rows, names_of_deep):
        row[name] = over_seeds([records.accuracy(run.of(name)) for run in groups[row["run"]]])
    models = list(dict.fromkeys(row["model"] for row in rows))
    columns = [name for row in rows for name, value in row.items() if isinstance(value, tuple) and name not in _NOT_DRAWN]
    parts = list(dict.fromkeys(columns))
    sizes = sorted({row["equations"] for row in rows})
    ticks = [size for size, larger in zip(sizes, [*sizes[1:], math.inf], strict=True) if larger > MIN_RATIO * size]
    parts_of_panels = [[part] for part in parts] if len(models) > 1 else [parts]
    figure = Figure(figsize=(1.6 + 4.6 * len(parts_of_panels), 4.0), layout="constrained")
    panels = figure.subplots(1, len(parts_of_panels), sharey=True, squeeze=False)[0]
    for axes, parts_of_panel in zip(panels, parts_of_panels, strict=True):
        for i, (model, part) in enumerate(itertools.product(models, parts_of_panel)):
            points = [row for row in rows if row["model"] == model and part in row]
            means, deviations = zip(*(row[part] for row in points), strict=True)
            places, bars = [row["equations"] for row in points], [deviation or 0.0 for deviation in deviations]
            style: dict[str, Any] = {**line(i), "markersize": 4.5, "capsize": 2}
            axes.errorbar(places, means, bars, **style, label=labels.get(model, model) if len(models) > 1 else part)
        set_of_panel = parts_of_panel[0] if len(models) > 1 else ""  # with one model the panel has all parts
        majority = statistics.fmean(
            records.majority(run.of(set_of_panel if set_of_panel in run.sets else "test")) for run in runs
        )
        if not math.isnan(majority):
            axes.axhline(majority, color="0.45", linewidth=1.2, linestyle=(0, (1, 1)), label="majority class")
        axes.set_title(parts_of_panel[0] if len(models) > 1 else "")
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{size / 1000:.3g}k" if size >= 1000 else str(size) for size in ticks])
        axes.minorticks_off()
        axes.set_xlabel("training equations (logarithmic)")
    figure.axes[0].set_ylabel("accuracy (%)")
    figure.axes[0].legend()
    return figure


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw the figure for runs by label. A model is named after what its labels share: "A" if they are "A, 10 %", "A, 20 %"."""
    labels_of_model: dict[str, list[str]] = {}
    for label, group in groups.items():
        labels_of_model.setdefault(group[0].config.model.name, []).append(label)
    label_of_model = {}
    for model, labels in labels_of_model.items():
        parts = zip(*(label.split(", ") for label in labels), strict=False)
        label_of_model[model] = ", ".join(part[0] for part in parts if len(set(part)) == 1) or model
    return draw([run for group in groups.values() for run in group], label_of_model)
