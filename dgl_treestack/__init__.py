"""Recursive neural networks with differentiable stacks, on batched DGL graphs.

The names below are loaded when they are first used: importing the package loads neither torch nor DGL.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Equation": "expression",
    "Example": "formats",
    "Expression": "expression",
    "Forest": "forest",
    "MATH": "operators",
    "Model": "model",
    "Operator": "operators",
    "Run": "training.run",
    "Signature": "operators",
    "TreestackError": "errors",
    "Vocabulary": "vocabulary",
    "judge": "truth",
}
__all__ = ["MATH", "Equation", "Example", "Expression", "Forest", "Model", "Operator", "Run", "Signature"]
__all__ += ["TreestackError", "Vocabulary", "judge"]

if TYPE_CHECKING:
    from dgl_treestack.errors import TreestackError
    from dgl_treestack.expression import Equation, Expression
    from dgl_treestack.forest import Forest
    from dgl_treestack.formats import Example
    from dgl_treestack.model import Model
    from dgl_treestack.operators import MATH, Operator, Signature
    from dgl_treestack.training.run import Run
    from dgl_treestack.truth import judge
    from dgl_treestack.vocabulary import Vocabulary


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
