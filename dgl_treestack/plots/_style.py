"""One style for all figures: readable in grey, vector and bitmap, the same bytes for the same input."""

import io
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgl_treestack import atomic
from dgl_treestack.errors import ConfigurationError

MARKERS = "osD^vP*X<>"
LINES = ("-", "--", "-.", ":")
# Okabe and Ito's palette, ordered so that neighbours also differ in lightness.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")

_SETTINGS: dict[Any, Any] = {
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


@contextmanager
def applied() -> Iterator[None]:
    """Within the block, figures have the style."""
    with matplotlib.rc_context(_SETTINGS):
        yield


def line(i: int) -> dict[str, str]:
    """Colour, marker and line style of the i-th series."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": LINES[i % len(LINES)]}


def draw_seeds(axes: Axes, curves: Sequence[Mapping[int, float]], label: str, i: int) -> None:
    """The i-th line of a panel, over the depths that all curves have: their mean, a band of one sample standard deviation."""
    depths = [depth for depth in curves[0] if all(depth in curve for curve in curves)]
    mean = [statistics.fmean(curve[depth] for curve in curves) for depth in depths]
    seeds = f"{len(curves)} seed{'s' if len(curves) > 1 else ''}"
    axes.plot(depths, mean, **line(i), markersize=4.5, label=f"{label} ({seeds})")  # type: ignore[arg-type]
    if len(curves) > 1:
        spread = [statistics.stdev(curve[depth] for curve in curves) for depth in depths]
        low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        axes.fill_between(depths, low, high, color=line(i)["color"], alpha=0.15, linewidth=0)


def check_output(output: Path) -> None:
    """Raise ConfigurationError when a suffix is neither .svg nor .png nor absent."""
    if output.suffix not in ("", ".svg", ".png"):
        raise ConfigurationError(f"Figures are written as SVG and PNG; {output.suffix!r} is neither.")


def save(figure: Figure, output: Path) -> list[Path]:
    """Write SVG and PNG beside each other, atomically. The suffix of `output`, if any, must be one of them."""
    check_output(output)
    written = []
    for suffix, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], metadata=metadata)
        path = output.with_suffix(suffix)
        atomic.write_bytes(path, buffer.getvalue())
        written.append(path)
    return written
