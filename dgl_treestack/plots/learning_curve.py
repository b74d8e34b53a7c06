"""Accuracy against the number of training equations: how much data a model needs, and whether more would help."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.errors import DataError
from dgl_treestack.plots._style import MAJORITY, draw_legend, name_of, styles_of
from dgl_treestack.plots.depth import DEEP
from dgl_treestack.results.report import over_seeds, rows_of
from dgl_treestack.results.run_result import RunResult, by_config

_NOT_DRAWN = ("best epoch", "train")
COLUMNS = 2  # of panels
MIN_RATIO = 1.3  # minimum ratio of two neighbouring sizes for a tick at the smaller one


def draw(runs: Sequence[RunResult]) -> Figure:
    """Draw a panel per part of the data, a line per model.

    A part is a column of `results.report.rows_of`, such as validation, or the set `deep`, if all runs have records of it. A
    point is the mean over seeds, its bar one sample standard deviation.

    Raises DataError when a run does not say how many equations it was trained on.
    """
    for run in runs:
        if not run.about.get("equations"):
            raise DataError("The run does not say how many equations it was trained on. Train it again.", run.folder)
    groups, rows = by_config(runs), sorted(rows_of(runs), key=lambda row: row["equations"])
    names_of_deep = [name for name in runs[0].sets if DEEP.fullmatch(name) and all(len(run.of(name)) for run in runs)]
    for row, name in itertools.product(rows, names_of_deep):
        row[name] = over_seeds([records.accuracy(run.of(name)) for run in groups[row["run"]]])
    models = {row["model"]: row["model"] for row in rows}
    style_of = styles_of(models)
    columns = [name for row in rows for name, value in row.items() if isinstance(value, tuple) and name not in _NOT_DRAWN]
    parts = list(dict.fromkeys(columns))
    sizes = sorted({row["equations"] for row in rows})
    ticks = [size for size, larger in zip(sizes, [*sizes[1:], math.inf], strict=True) if larger > MIN_RATIO * size]
    lines = math.ceil(len(parts) / COLUMNS)
    figure = Figure(figsize=(4.8 * COLUMNS, 0.6 + 3.2 * lines), layout="constrained")
    panels = figure.subplots(lines, COLUMNS, sharey=True, squeeze=False).flatten()
    for axes, part in zip(panels, parts, strict=False):
        for model in models:
            points = [row for row in rows if row["model"] == model and part in row]
            means, deviations = zip(*(row[part] for row in points), strict=True)
            places, bars = [row["equations"] for row in points], [deviation or 0.0 for deviation in deviations]
            axes.errorbar(places, means, bars, **style_of[model], markersize=4.5, capsize=2, label=name_of(model))
        majority = statistics.fmean(records.majority(run.of(part if part in run.sets else "test")) for run in runs)
        if not math.isnan(majority):
            axes.axhline(majority, **MAJORITY)
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{size / 1000:.3g}k" if size >= 1000 else str(size) for size in ticks])
        axes.minorticks_off()
        axes.set(title=part, xlabel="training equations (logarithmic)", ylabel="accuracy (%)")
    for axes in panels[len(parts) :]:
        axes.axis("off")
    panels[0].errorbar([], [], [], color="0.45", capsize=2, linestyle="none", label="± one standard deviation over seeds")
    draw_legend(figure, [panels[0]])
    return figure


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw the figure for runs by label, which a line per model does not need."""
    return draw([run for group in groups.values() for run in group])
