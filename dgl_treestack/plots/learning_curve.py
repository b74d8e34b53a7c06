"""Accuracy against the number of training equations: how much data a model needs, and whether more would still help."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgl_treestack.errors import DataError
from dgl_treestack.plots import _style
from dgl_treestack.results.report import Row, rows_of
from dgl_treestack.results.run_result import RunResult

_NOT_DRAWN = ("best epoch", "train")
NEAR = 1.3  # times: sizes nearer to each other would be written over each other


def draw(runs: Sequence[RunResult]) -> Figure:
    """A line per part of the data, for several models a panel per part and a line per model. A point is the mean over seeds,
    its bar one sample standard deviation.

    Raises DataError when a run does not say how many equations it was trained on.
    """
    for run in runs:
        if not run.equations:
            raise DataError("The run does not say how many equations it was trained on. Train it anew.", run.folder)
    rows = sorted(rows_of(runs), key=lambda row: row["equations"])
    models = list(dict.fromkeys(row["model"] for row in rows))
    parts = list(dict.fromkeys(part for row in rows for part in _parts(row)))
    panels = [[part] for part in parts] if len(models) > 1 else [parts]
    figure = Figure(figsize=(1.6 + 4.6 * len(panels), 4.0), layout="constrained")
    for axes, shown in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
        for i, (model, part) in enumerate((model, part) for model in models for part in shown):
            found = [row for row in rows if row["model"] == model and part in row]
            _draw_line(axes, found, part, model if len(models) > 1 else part, _style.line(i))
        axes.axhline(50, color="0.45", linewidth=1.2, linestyle=(0, (1, 1)), label="chance")
        axes.set_title(shown[0] if len(models) > 1 else "")
        _mark_sizes(axes, sorted({row["equations"] for row in rows}))
    figure.axes[0].set_ylabel("accuracy (%)")
    figure.axes[0].legend()
    return figure


def _mark_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """A logarithmic axis with the sizes written below it, where there is room for them."""
    axes.set_xscale("log")
    written = [size for size, larger in zip(sizes, [*sizes[1:], math.inf], strict=True) if larger > NEAR * size]
    axes.set_xticks(written, [f"{size / 1000:.3g}k" if size >= 1000 else str(size) for size in written])
    axes.minorticks_off()
    axes.set_xlabel("training equations")


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """The same for runs by label; a model is known by its name, whatever the labels."""
    return draw([run for runs in groups.values() for run in runs])


def _parts(row: Row) -> list[str]:
    return [name for name, value in row.items() if isinstance(value, tuple) and name not in _NOT_DRAWN]


def _draw_line(axes: Axes, rows: Sequence[Row], part: str, label: str, line: dict[str, str]) -> None:
    means, spreads = zip(*(row[part] for row in rows), strict=True)
    sizes, bars = [row["equations"] for row in rows], [spread or 0.0 for spread in spreads]
    axes.errorbar(sizes, means, bars, **line, markersize=4.5, capsize=2, label=label)  # type: ignore[arg-type]
