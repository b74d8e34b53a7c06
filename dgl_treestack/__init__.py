"""Recursive neural networks with differentiable stacks, on batched DGL graphs.

The names below are imported at their first use: importing the package loads neither torch nor DGL.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(("GraphDataLoader", "dgl"), "_dgl"),
    **dict.fromkeys(("Cell", "register_cell"), "cells"),
    "Forest": "data.forest",
    "Example": "data.formats",
    "Vocabulary": "data.vocabulary",
    "TreestackError": "errors",
    **dict.fromkeys(("Equation", "Expression"), "expression"),
    "register_language": "expression.language",
    **dict.fromkeys(("MATH", "Operator", "Signature"), "expression.operators"),
    "to_networkx": "inspection.network",
    "describe": "inspection.table",
    "Model": "model.model",
    "TreeDataset": "model.tree_dataset",
    **dict.fromkeys(("load", "pretrained"), "runs.pretrained"),
    "Run": "runs.run",
    **dict.fromkeys(("Task", "register_task"), "tasks"),
    "judge": "truth",
}
__all__ = ["MATH", "Cell", "Equation", "Example", "Expression", "Forest", "GraphDataLoader"]
__all__ += ["Model", "Operator", "Run", "Signature", "Task", "TreeDataset", "TreestackError"]
__all__ += ["Vocabulary", "describe", "dgl", "judge", "load", "pretrained", "register_cell"]
__all__ += ["register_language", "register_task", "to_networkx"]

if TYPE_CHECKING:
    from dgl_treestack._dgl import GraphDataLoader, dgl
    from dgl_treestack.cells import Cell, register_cell
    from dgl_treestack.data.forest import Forest
    from dgl_treestack.data.formats import Example
    from dgl_treestack.data.vocabulary import Vocabulary
    from dgl_treestack.errors import TreestackError
    from dgl_treestack.expression import Equation, Expression
    from dgl_treestack.expression.language import register_language
    from dgl_treestack.expression.operators import MATH, Operator, Signature
    from dgl_treestack.inspection.network import to_networkx
    from dgl_treestack.inspection.table import describe
    from dgl_treestack.model.model import Model
    from dgl_treestack.model.tree_dataset import TreeDataset
    from dgl_treestack.runs.pretrained import load, pretrained
    from dgl_treestack.runs.run import Run
    from dgl_treestack.tasks import Task, register_task
    from dgl_treestack.truth import judge


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
