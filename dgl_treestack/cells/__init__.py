"""Recursive cells, one file each. The table of models is put together by listing this folder.

A cell file defines a class derived from `Cell` and `MODELS`, which maps model names to `Model`. Nothing else has to know of it.
A cell of somebody else's is added by `register_cell`, or by an entry point of the group `dgl_treestack.cells` in their
package: a class, which gets the name of the entry point, or a mapping from names to `Model`.
"""

import importlib
import importlib.metadata
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
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
from dgl_treestack.expression.operators import Operator

COMMON = ("dropout", "input_size", "share")  # what a configuration says beside a model's settings


GROUP = "dgl_treestack.cells"  # of entry points
_registered: dict[str, Model] = {}


def models() -> dict[str, Model]:
    """Every model by name: from every file of this folder, from entry points, and what was registered."""
    return {**_of_folder(), **_of_entry_points(), **_registered}


def register_cell(
    name: str, *, settings: Mapping[str, Any] | None = None, paper: str = "-", equations: str = "-", adds: str = ""
) -> Callable[[type[Cell]], type[Cell]]:
    """Decorate a cell's class, so that `build`, configurations and `treestack cells` know it by a name.

    settings, paper, equations, adds: as in `Model`. Raises ConfigurationError when the name is that of another cell.

    >>> @register_cell("my_tree_rnn")  # doctest: +SKIP
    ... class MyTreeRNN(Cell): ...
    """

    def add(cell: type[Cell]) -> type[Cell]:
        _check_cell(cell, name)
        taken = models().get(name)
        if taken is not None and (taken.cell.__module__, taken.cell.__qualname__) != (cell.__module__, cell.__qualname__):
            raise ConfigurationError(f"The model name {name!r} is that of {taken.cell.__name__}. Take another one.")
        _registered[name] = Model(cell, paper, equations, adds, settings or {})
        return cell

    return add


@cache
def _of_folder() -> dict[str, Model]:
    table: dict[str, Model] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")):
        table.update(importlib.import_module(f"{__name__}.{module}").MODELS)
    return table


@cache
def _of_entry_points() -> dict[str, Model]:
    table: dict[str, Model] = {}
    for entry_point in importlib.metadata.entry_points(group=GROUP):
        named = entry_point.load()
        for name, model in named.items() if isinstance(named, Mapping) else ((entry_point.name, Model(named, "-", "-", "")),):
            _check_cell(model.cell, name)
            table[name] = model
    return table


def _check_cell(cell: object, name: str) -> None:
    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        raise ConfigurationError(f"What is registered as {name!r} is no class derived from dgl_treestack.Cell: {cell!r}.")


def build(
    name: str | type[Cell],
    operators: Sequence[Operator],
    tokens: int,
    hidden: int,
    *,
    dropout: float = 0.0,
    input_size: int = 0,
    share: str = "operator",
    **settings: Any,
) -> Cell:
    """The cell of a model name, or of a class. `settings` override those of the name.

    Parameters are uninitialised until `reset_parameters(generator)` or `load_state_dict`.
    Raises ConfigurationError for an unknown name or setting.
    """
    if not isinstance(name, str):
        _check_cell(name, getattr(name, "__name__", str(name)))
        model = Model(name, "-", "-", "")
    elif name in models():
        model = models()[name]
    else:
        raise ConfigurationError(unknown("model", name, models()))
    known = [key for key in _settings_of(model.cell) if key not in COMMON]
    for key in settings:
        if key not in known:
            raise ConfigurationError(f"Model {_called(name)!r}: " + unknown("setting", key, known))
    common: dict[str, Any] = {"dropout": dropout, "input_size": input_size, "share": share}
    cell = model.cell(operators, tokens, hidden, **common, **{**model.settings, **settings})
    cell.settings = {**model.settings, **settings}  # for `repr`
    return cell


def _called(name: str | type[Cell]) -> str:
    return name if isinstance(name, str) else name.__name__


def _settings_of(cell: type[Cell]) -> list[str]:
    """The keyword arguments of a class and its bases, the class's own first."""
    found: dict[str, None] = {}
    for base in cell.__mro__:
        if issubclass(base, Cell):
            parameters = inspect.signature(base.__init__).parameters.values()
            found.update(dict.fromkeys(p.name for p in parameters if p.kind is p.KEYWORD_ONLY))
    return list(found)
