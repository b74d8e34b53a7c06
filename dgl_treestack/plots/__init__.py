"""Figures, one file each. A figure reads records of runs, never a model, and imports no torch.

A file's name is the figure's name. `draw(runs) -> Figure` draws runs grouped by configuration, `draw_groups(groups) -> Figure`
runs grouped by a label, `draw_data(data) -> Figure` plain data. `audit` is drawn from the report of an audit, `equations` from
the manifests of generated data. All have one style: readable in grey, vector and bitmap, the same bytes for the same input.
"""

import functools
import importlib
import io
import pkgutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
    "svg.hashsalt": "dgl-treestack",  # ids in SVG are random without it, so that equal figures would have other bytes
    "svg.fonttype": "none",  # text stays text
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
    if name in _OF_MANIFESTS and on:
        raise ConfigurationError(f"The figure {name!r} is not drawn from runs. Leave out --on.")
    read = read_manifest if name in _OF_MANIFESTS else functools.partial(run_result.read, on=on)
    return draw(name, [read(folder) for folder in folders], output)


def draw(name: str, data: Any, output: Path) -> list[Path]:
    """Draw a figure in the common style and save it atomically as SVG and PNG. Returns the paths written.

    data: what the figure's function takes: runs (`results.run_result.RunResult`), label -> runs, or plain data.
    """
    import matplotlib

    from dgl_treestack import atomic

    module = importlib.import_module(f"{__name__}.{name}")
    function = "draw_data" if hasattr(module, "draw_data") else "draw_groups" if isinstance(data, Mapping) else "draw"
    written = []
    with matplotlib.rc_context(SETTINGS):
        figure = getattr(module, function)(data)
        check_output(output)
        # the date, and the version of matplotlib, would also change the bytes
        for suffix, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix[1:], metadata=metadata)
            written.append(output.with_suffix(suffix))
            atomic.write_bytes(written[-1], buffer.getvalue())
    return written


def check_output(output: Path) -> None:
    """Raise ConfigurationError when the suffix of a path is neither .svg nor .png nor absent."""
    if output.suffix not in ("", ".svg", ".png"):
        raise ConfigurationError(f"Figures are written as SVG and PNG; {output.suffix!r} is neither.")


def line(i: int) -> dict[str, str]:
    """Return colour, marker and line style of the i-th series."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": LINES[i % len(LINES)]}


def draw_seeds(
    panels: "Sequence[Axes]",
    groups: Mapping[str, Sequence[Any]],
    curve_of: Callable[[Any], Mapping[int, float | Sequence[float]]],
) -> None:
    """Draw a line per label in every panel: the mean over seeds, in a band of one sample standard deviation.

    groups: label -> runs, one per seed. curve_of: gives of a run depth (or epoch) -> value, or a value for every panel. Only
    depths that the curves of all seeds have are drawn.
    """
    for i, (label, runs) in enumerate(groups.items()):
        curves = [{depth: np.atleast_1d(values) for depth, values in curve_of(run).items()} for run in runs]
        depths = [depth for depth in curves[0] if all(depth in curve for curve in curves)]
        title = f"{label} ({len(curves)} seed{'s' if len(curves) > 1 else ''})"
        for field, axes in enumerate(panels):
            of_depths = [[curve[depth][field] for curve in curves] for depth in depths]
            means = [statistics.fmean(of_seeds) for of_seeds in of_depths]
            axes.plot(depths, means, **line(i), markersize=4.5, label=title)  # type: ignore[arg-type]
            if len(curves) > 1:
                deviations = [statistics.stdev(of_seeds) for of_seeds in of_depths]
                low, high = np.subtract(means, deviations), np.add(means, deviations)
                axes.fill_between(depths, low, high, color=line(i)["color"], alpha=0.15, linewidth=0)
