"""One style for all figures: readable in grey, vector and bitmap, the same bytes for the same input."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

MARKERS = "osD^vP*X<>"
LINES = ("-", "--", "-.", ":")
# The palette of Okabe and Ito, ordered so that neighbours also differ in lightness.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")

SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "dgl-treestack",
    "svg.fonttype": "none",
    "savefig.dpi": 150,
}


def line(i: int) -> dict[str, str]:
    """Return colour, marker and line style of the i-th series."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": LINES[i % len(LINES)]}


def draw_seeds(axes: Axes, curves: Sequence[Mapping[int, float]], label: str, i: int) -> None:
    """Draw the i-th series of a panel: the mean over seeds, in a band of one sample standard deviation.

    curves: a curve per seed, depth (or epoch) -> value. Only depths that all curves have are drawn.
    """
    depths = [depth for depth in curves[0] if all(depth in curve for curve in curves)]
    means = [statistics.fmean(curve[depth] for curve in curves) for depth in depths]
    seeds = f"{len(curves)} seed{'s' if len(curves) > 1 else ''}"
    axes.plot(depths, means, **line(i), markersize=4.5, label=f"{label} ({seeds})")  # type: ignore[arg-type]
    if len(curves) > 1:
        deviations = [statistics.stdev(curve[depth] for curve in curves) for depth in depths]
        low = [mean - deviation for mean, deviation in zip(means, deviations, strict=True)]
        high = [mean + deviation for mean, deviation in zip(means, deviations, strict=True)]
        axes.fill_between(depths, low, high, color=line(i)["color"], alpha=0.15, linewidth=0)
