"""Figures, one file each. A figure reads records of runs, never a model, and imports no torch.

A file's name is the figure's name. `draw(runs) -> Figure` draws runs grouped by configuration, `draw_groups(groups) -> Figure`
runs grouped by a label, `draw_data(data) -> Figure` plain data. `audit` is drawn from the report of an audit, `equations` from
the manifests of generated data. All have one style: readable in grey, vector and bitmap, the same bytes for the same input.
"""

import importlib
import io
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack.errors import ConfigurationError, DataError, unknown

_OF_MANIFESTS = ("equations",)


def figures() -> list[str]:
    """Return the names of the figures that `plot` draws, from the files of this folder: those that define `draw`."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return [name for name in names if hasattr(importlib.import_module(f"{__name__}.{name}"), "draw")]


def plot(name: str, folders: Sequence[Path], output: Path, on: str = "") -> list[Path]:
    """Draw a figure from runs, or from folders of generated data, and save it. Returns the paths written.

    folders: of runs, or files `records.parquet` of `reproduce`. output: a path with suffix .svg, .png or none; both files are
    written. on: a data file that the runs were evaluated on, in place of their test sets.
    Raises ConfigurationError for an unknown figure or suffix, and for `on` with a figure without runs, DataError for a folder
    without records or manifest, and for no runs.
    """
    from dgl_treestack.generate.production import read_manifest
    from dgl_treestack.results import archive, run_result
    from dgl_treestack.runs.configuration import RunConfig

    if name not in figures():
        raise ConfigurationError(unknown("figure", name, figures()))
    if name in _OF_MANIFESTS and on:
        raise ConfigurationError(f"The figure {name!r} is not drawn from runs. Leave out --on.")
    if name in _OF_MANIFESTS:
        return draw(name, [read_manifest(folder) for folder in folders], output)
    runs = []
    for path in folders:
        is_archive = path.suffix == ".parquet" and not on
        recorded = archive.read(path) if is_archive else [run_result.read(path, on=on)]
        # in a file of records rows of a table without a network have no epochs
        runs += [run for run in recorded if not is_archive or (run.rows and isinstance(run.config, RunConfig))]
    if not runs:
        raise DataError("Name at least one run folder, or file of records with runs on trees.")
    return draw(name, runs, output)


def draw(name: str, data: Any, output: Path, **options: Any) -> list[Path]:
    """Draw a figure in the common style and save it atomically as SVG and PNG. Returns the paths written.

    data: what the figure's function takes: runs (`results.run_result.RunResult`), label -> runs, or plain data. options: of
    the figure's function.
    """
    import matplotlib

    from dgl_treestack import atomic
    from dgl_treestack.plots._style import SETTINGS

    module = importlib.import_module(f"{__name__}.{name}")
    function = "draw_data" if hasattr(module, "draw_data") else "draw_groups" if isinstance(data, Mapping) else "draw"
    written = []
    with matplotlib.rc_context(SETTINGS):
        figure = getattr(module, function)(data, **options)
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
