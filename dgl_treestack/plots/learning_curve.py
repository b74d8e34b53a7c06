"""Accuracy against the number of training equations: how much data a model needs, and whether more would still help."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgl_treestack.errors import DataError
from dgl_treestack.plots import _style
from dgl_treestack.report import Row, rows_of
from dgl_treestack.results import RunResult

_NOT_DRAWN = ("best epoch", "train")


def draw(runs: Sequence[RunResult]) -> Figure:
    """A line per model and part of the data; a point is the mean over seeds, its bar one sample standard deviation.

    Raises DataError when a run does not say how many equations it was trained on.
    """
    for run in runs:
        if not run.equations:
            raise DataError("The run does not say how many equations it was trained on. Train it anew.", run.folder)
    rows = sorted(rows_of(runs), key=lambda row: row["equations"])
    lines = list(dict.fromkeys((row["model"], part) for row in rows for part in _parts(row)))
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for i, (model, part) in enumerate(lines):
        found = [row for row in rows if row["model"] == model and part in row]
        _draw_line(axes, found, part, f"{model}, {part}" if len({row["model"] for row in rows}) > 1 else part, _style.line(i))
    axes.axhline(50, color="0.45", linewidth=1.2, linestyle=(0, (1, 1)), label="chance")
    axes.set_xscale("log")
    sizes = sorted({row["equations"] for row in rows})
    axes.set_xticks(sizes, [f"{size / 1000:.3g}k" if size >= 1000 else str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("training equations")
    axes.set_ylabel("accuracy (%)")
    axes.legend()
    return figure


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """The same for runs by label; a model is known by its name, whatever the labels."""
    return draw([run for runs in groups.values() for run in runs])


def _parts(row: Row) -> list[str]:
    return [name for name, value in row.items() if isinstance(value, tuple) and name not in _NOT_DRAWN]


def _draw_line(axes: Axes, rows: Sequence[Row], part: str, label: str, line: dict[str, str]) -> None:
    means, spreads = zip(*(row[part] for row in rows), strict=True)
    sizes, bars = [row["equations"] for row in rows], [spread or 0.0 for spread in spreads]
    axes.errorbar(sizes, means, bars, **line, markersize=4.5, capsize=2, label=label)  # type: ignore[arg-type]
