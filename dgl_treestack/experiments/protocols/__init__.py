"""The papers' experiments on verification, one file each: whoever adds one adds a file that defines `PROTOCOL`."""

import importlib
import pkgutil

from dgl_treestack.experiments._protocol import Protocol


def protocols() -> dict[str, Protocol]:
    """Every protocol by name, from the files of this folder."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").PROTOCOL for name in names}
