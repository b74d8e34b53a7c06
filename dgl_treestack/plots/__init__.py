"""Figures, one file each. A figure reads records of runs, never a model, and imports no torch.

A file's name is the figure's name. `draw(runs) -> Figure` draws runs, `draw_groups(groups) -> Figure` runs by label, for the
papers' protocols. `audit` is drawn from an audit's report, `equations` from the manifests of generated data.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack.errors import ConfigurationError, unknown

# They need more than the records of a test set.
_NOT_OF_RUNS = ("audit", "completion", "substitutivity", "usage", "algorithmic", "actions")
_OF_MANIFESTS = ("equations",)


def figures() -> list[str]:
    """Names of the figures that `plot` draws, from the files of this folder."""
    names = (info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return sorted(name for name in names if name not in _NOT_OF_RUNS)


def plot(name: str, folders: Sequence[Path], output: Path) -> list[Path]:
    """Draw a figure from run folders, or folders of generated data, and save it as SVG and PNG. Returns the files written.

    Raises ConfigurationError for an unknown figure, DataError for a folder without records or manifest.
    """
    from dgl_treestack.generate.production import read_manifest
    from dgl_treestack.plots import _style
    from dgl_treestack.results import run_result

    if name not in figures():
        raise ConfigurationError(unknown("figure", name, figures()))
    draw = importlib.import_module(f"{__name__}.{name}").draw
    read = read_manifest if name in _OF_MANIFESTS else run_result.read
    with _style.applied():
        return _style.save(draw([read(folder) for folder in folders]), output)


def draw_groups(name: str, groups: Mapping[str, Sequence[Any]], output: Path) -> list[Path]:
    """Draw a figure of runs (`results.run_result.RunResult`) by label and save it as SVG and PNG. Returns the files written."""
    from dgl_treestack.plots import _style

    with _style.applied():
        return _style.save(importlib.import_module(f"{__name__}.{name}").draw_groups(groups), output)


def draw_data(name: str, data: Any, output: Path) -> list[Path]:
    """Draw a figure of plain data and save it as SVG and PNG. Returns the files written."""
    from dgl_treestack.plots import _style

    with _style.applied():
        return _style.save(importlib.import_module(f"{__name__}.{name}").draw_data(data), output)


def plot_audit(report: Mapping[str, Any], output: Path) -> list[Path]:
    """Draw the report of an audit (`audit.report.audit`) and save it as SVG and PNG. Returns the files written."""
    from dgl_treestack.plots import _style, audit

    with _style.applied():
        return _style.save(audit.draw(report), output)


def check_output(output: Path) -> None:
    """Raise ConfigurationError when no figure can be written under this name."""
    from dgl_treestack.plots import _style

    _style.check_output(output)
