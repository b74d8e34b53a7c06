"""The papers' experiments on verification, one file each, which defines `PROTOCOL`; a new file is a new protocol."""

import importlib
import pkgutil

from dgl_treestack.experiments._protocol import Protocol


def protocols() -> dict[str, Protocol]:
    """Return the protocols by name, from the files of this folder."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").PROTOCOL for name in names}
