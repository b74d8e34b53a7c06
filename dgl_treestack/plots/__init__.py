"""Figures, one file each. A figure reads records of runs, never a model, and imports no torch.

A file defines `draw(runs) -> Figure`; its name is the figure's name.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path

from dgl_treestack.errors import ConfigurationError, unknown


def figures() -> list[str]:
    """Names of the figures, from the files of this folder."""
    return sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))


def plot(name: str, folders: Sequence[Path], output: Path) -> list[Path]:
    """Draw a figure from run folders and save it as SVG and PNG. Returns the files written.

    Raises ConfigurationError for an unknown figure, DataError for a folder without records.
    """
    from dgl_treestack import results
    from dgl_treestack.plots import _style

    if name not in figures():
        raise ConfigurationError(unknown("figure", name, figures()))
    draw = importlib.import_module(f"{__name__}.{name}").draw
    with _style.applied():
        return _style.save(draw([results.read(folder) for folder in folders]), output)
