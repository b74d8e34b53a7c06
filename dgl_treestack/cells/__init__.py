"""Recursive cells, one file each. The table of models is put together by listing this folder.

A cell file defines a class derived from `Cell` and `MODELS`, which maps model names to `Model`. Nothing else has to know of it.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import Any

from dgl_treestack.cells._contract import Cell as Cell
from dgl_treestack.cells._model import Model as Model
from dgl_treestack.cells._product import OperatorLinear as OperatorLinear
from dgl_treestack.cells._step import FORMS as FORMS
from dgl_treestack.cells._step import PER_CHILD as PER_CHILD
from dgl_treestack.cells._step import Noise as Noise
from dgl_treestack.cells._step import Ops as Ops
from dgl_treestack.cells._step import Shape as Shape
from dgl_treestack.cells._step import Signals as Signals
from dgl_treestack.cells._step import State as State
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.operators import Operator

COMMON = ("dropout", "input_size", "share")  # what a configuration says beside a model's settings


@cache
def models() -> dict[str, Model]:
    """Every model by name, from every file of this folder."""
    table: dict[str, Model] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")):
        table.update(importlib.import_module(f"{__name__}.{module}").MODELS)
    return table


def build(
    name: str,
    operators: Sequence[Operator],
    tokens: int,
    hidden: int,
    *,
    dropout: float = 0.0,
    input_size: int = 0,
    share: str = "operator",
    **settings: Any,
) -> Cell:
    """The cell of a model name. `settings` override those of the name.

    Parameters are uninitialised until `reset_parameters(generator)` or `load_state_dict`.
    Raises ConfigurationError for an unknown name or setting.
    """
    if name not in models():
        raise ConfigurationError(unknown("model", name, models()))
    model = models()[name]
    known = [key for key in _settings_of(model.cell) if key not in COMMON]
    for key in settings:
        if key not in known:
            raise ConfigurationError(f"Model {name!r}: " + unknown("setting", key, known))
    common: dict[str, Any] = {"dropout": dropout, "input_size": input_size, "share": share}
    cell = model.cell(operators, tokens, hidden, **common, **{**model.settings, **settings})
    cell.settings = {**model.settings, **settings}  # for `repr`
    return cell


def _settings_of(cell: type[Cell]) -> list[str]:
    """The keyword arguments of a class and its bases, the class's own first."""
    found: dict[str, None] = {}
    for base in cell.__mro__:
        if issubclass(base, Cell):
            parameters = inspect.signature(base.__init__).parameters.values()
            found.update(dict.fromkeys(p.name for p in parameters if p.kind is p.KEYWORD_ONLY))
    return list(found)
