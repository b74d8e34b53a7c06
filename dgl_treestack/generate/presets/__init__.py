"""Data sets that can be made by name, one file each: `paper_labels.py` defines `PRESET`, known as `paper-labels`.

Presets are found by listing this folder; no other file has to name them.
"""

import importlib
import pkgutil

from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.generate.presets._contract import Options as Options
from dgl_treestack.generate.presets._contract import Parts as Parts
from dgl_treestack.generate.presets._contract import Preset as Preset
from dgl_treestack.generate.presets._contract import Product as Product
from dgl_treestack.generate.presets._contract import Row as Row
from dgl_treestack.generate.presets._contract import Shard as Shard


def names() -> tuple[str, ...]:
    """Return the names of all presets in alphabetical order of their files."""
    modules = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return tuple(module.replace("_", "-") for module in modules)


def find(name: str) -> Preset:
    """Return a preset by name. Raises ConfigurationError for an unknown name."""
    if name not in names():
        raise ConfigurationError(unknown("preset", name, names()))
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}").PRESET
