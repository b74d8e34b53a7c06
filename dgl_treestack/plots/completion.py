"""Top-1 and top-5 of equation completion against depth."""

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgl_treestack import records
from dgl_treestack.plots import _style
from dgl_treestack.results import RunResult

PANELS = (("class", 1, "top-1"), ("collapse", 5, "top-5"))  # rank, at most, title


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """A line per model in either panel: mean over seeds, a band of one sample standard deviation.

    Top-1 is whether the best candidate is right; top-5 counts value classes, of which the best candidate stands for each.
    """
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (kind, most, title) in zip(panels, PANELS, strict=True):
        for i, (label, runs) in enumerate(groups.items()):
            _draw(axes, label, [_shares(run, kind, most) for run in runs], _style.line(i))
        axes.set_title(title)
        axes.set_xlabel("depth of the equation")
    panels[0].set_ylabel("blanks filled (%)")
    panels[0].set_ylim(bottom=0)
    panels[-1].legend()
    return figure


def _shares(run: RunResult, kind: str, most: int) -> dict[int, float]:
    groups = records.by_depth(run.blanks).items()
    return {depth: 100 * sum(row[kind] <= most for row in rows) / len(rows) for depth, rows in groups}


def _draw(axes: Axes, label: str, curves: Sequence[dict[int, float]], line: dict[str, str]) -> None:
    depths = list(curves[0])
    mean = [statistics.fmean(curve[depth] for curve in curves) for depth in depths]
    axes.plot(depths, mean, **line, markersize=4.5, label=f"{label} ({len(curves)} seed{'s' * (len(curves) > 1)})")  # type: ignore[arg-type]
    axes.set_xticks(depths)
    if len(curves) > 1:
        spread = [statistics.stdev(curve[depth] for curve in curves) for depth in depths]
        low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        axes.fill_between(depths, low, high, color=line["color"], alpha=0.15, linewidth=0)
