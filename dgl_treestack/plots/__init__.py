"""Figures, one file each. A figure reads records of runs, never a model, and imports no torch.

A file's name is the figure's name. `draw(runs) -> Figure` draws runs grouped by configuration, `draw_groups(groups) -> Figure`
runs grouped by a label, `draw_data(data) -> Figure` plain data. `audit` is drawn from the report of an audit, `equations` from
the manifests of generated data. All have one style: readable in grey, vector and bitmap, the same bytes for the same input.
"""

import importlib
import io
import pkgutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgl_treestack.errors import ConfigurationError, unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OF_MANIFESTS = ("equations",)
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


def figures() -> list[str]:
    """Return the names of the figures that `plot` draws, from the files of this folder: those that define `draw`."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return [name for name in names if hasattr(importlib.import_module(f"{__name__}.{name}"), "draw")]


def plot(name: str, folders: Sequence[Path], output: Path, on: str = "") -> list[Path]:
    """Draw a figure from run folders, or from folders of generated data, and save it. Returns the paths written.

    output: a path with suffix .svg, .png or none; both files are written. on: a data file that the runs were evaluated on, in
    place of their test sets.
    Raises ConfigurationError for an unknown figure or suffix, and for `on` with a figure without runs, DataError for a folder
    without records or manifest.
    """
    from dgl_treestack.generate.production import read_manifest
    from dgl_treestack.results import run_result

    if name not in figures():
        raise ConfigurationError(unknown("figure", name, figures()))
    if name in _OF_MANIFESTS:
        if on:
            raise ConfigurationError(f"The figure {name!r} is not drawn from runs. Leave out --on.")
        return _draw_and_save(name, "draw", [read_manifest(folder) for folder in folders], output)
    return _draw_and_save(name, "draw", [run_result.read(folder, on) for folder in folders], output)


def draw_groups(name: str, groups: Mapping[str, Sequence[Any]], output: Path) -> list[Path]:
    """Draw a figure of runs (`results.run_result.RunResult`) by label and save it as SVG and PNG. Returns the paths written."""
    return _draw_and_save(name, "draw_groups", groups, output)


def draw_data(name: str, data: Any, output: Path) -> list[Path]:
    """Draw a figure of plain data and save it as SVG and PNG. Returns the paths written."""
    return _draw_and_save(name, "draw_data", data, output)


def check_output(output: Path) -> None:
    """Raise ConfigurationError when the suffix of a path is neither .svg nor .png nor absent."""
    if output.suffix not in ("", ".svg", ".png"):
        raise ConfigurationError(f"Figures are written as SVG and PNG; {output.suffix!r} is neither.")


def _draw_and_save(name: str, function: str, data: Any, output: Path) -> list[Path]:
    """Call a function of a figure's file in the common style, and write the figure atomically as SVG and PNG."""
    import matplotlib

    from dgl_treestack import atomic

    with matplotlib.rc_context(SETTINGS):
        figure = getattr(importlib.import_module(f"{__name__}.{name}"), function)(data)
        check_output(output)
        written = []
        for suffix, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix[1:], metadata=metadata)
            path = output.with_suffix(suffix)
            atomic.write_bytes(path, buffer.getvalue())
            written.append(path)
    return written


def line(i: int) -> dict[str, str]:
    """Return colour, marker and line style of the i-th series."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": LINES[i % len(LINES)]}


def draw_seeds(axes: "Axes", curves: Sequence[Mapping[int, float]], label: str, i: int) -> None:
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
