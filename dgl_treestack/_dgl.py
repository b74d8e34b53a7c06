"""The only module that imports DGL.

DGL is a frozen binary: 1.1.3 on Python 3.11, 2.1.0 on 3.12, none on later ones. Versions 2.0 to 2.3 import `dgl.graphbolt`,
which is built for one torch version only; if that build is missing, a stand-in replaces it and raises when it is used. This
project does not use graphbolt.
"""

import importlib.metadata
import importlib.util
import os
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch
from packaging.version import Version

from dgl_treestack.errors import ConfigurationError

os.environ.setdefault("DGLBACKEND", "pytorch")  # keeps DGL from writing a configuration into the home folder


def _refuse(name: str) -> object:
    raise AttributeError(f"dgl.graphbolt.{name} is not available with torch {torch.__version__}.")


class _Missing:
    """In place of a class or function of DGL where it cannot be imported: raises ConfigurationError when it is used."""

    def __init__(self, *_: Any, **__: Any):
        raise ConfigurationError(
            f"DGL is needed here, for graphs or the engine 'topo', and cannot be imported ({REASON}). Install dgl==1.1.3 on "
            "Python 3.11 or dgl==2.1.0 on Python 3.12. Training, evaluation, `verify` and plots work without it."
        )


REASON = ""  # why DGL cannot be imported, empty if it can
VERSION = "missing"
STAND_IN = False
try:
    VERSION = importlib.metadata.version("dgl")
    STAND_IN = Version("2") <= Version(VERSION) < Version("2.4")
    if STAND_IN:
        package = importlib.util.find_spec("dgl")
        if package is None or package.origin is None:
            raise ImportError("DGL is not installed")
        built_for = torch.__version__.split("+")[0]
        library = Path(package.origin).parent / "graphbolt" / f"libgraphbolt_pytorch_{built_for}.so"
        if not (library.exists() or "dgl" in sys.modules):
            graphbolt = types.ModuleType("dgl.graphbolt")
            graphbolt.__path__ = []
            graphbolt.__getattr__ = _refuse  # type: ignore[method-assign]
            sys.modules["dgl.graphbolt"] = graphbolt
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside a library that will not be released again
        import dgl
        from dgl import (
            DGLError,
            DGLGraph,
            batch,
            function,
            graph,
            load_graphs,
            prop_nodes_topo,
            save_graphs,
            topological_nodes_generator,
        )
        from dgl.data import DGLDataset
        from dgl.dataloading import GraphDataLoader
        from dgl.nn import GatedGraphConv, GINEConv
except (ImportError, OSError) as error:  # not installed, or a library that it needs is not there
    no_build = sys.version_info >= (3, 13) and VERSION == "missing"
    REASON = f"it has no build for Python {sys.version_info.major}.{sys.version_info.minor}" if no_build else str(error)
    dgl = types.ModuleType("dgl")
    dgl.__getattr__ = _Missing  # type: ignore[method-assign]
    DGLError = type("DGLError", (Exception,), {})
    DGLGraph = DGLDataset = GraphDataLoader = GatedGraphConv = GINEConv = _Missing
    graph = function = prop_nodes_topo = topological_nodes_generator = load_graphs = save_graphs = batch = _Missing


def require() -> None:
    """Raise ConfigurationError when DGL cannot be imported."""
    if REASON:
        _Missing()


def has_cuda() -> bool:
    """Whether the installed DGL can hold a graph on a GPU."""
    if REASON:
        return False
    try:
        dgl.graph(([0], [1])).to("cuda")
    except Exception:  # DGLError of DGL, AssertionError or RuntimeError of torch
        return False
    return True
