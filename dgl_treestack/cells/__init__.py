"""Recursive cells, one file each. The table of models is put together by listing this folder.

A cell's file defines a class derived from `Cell`, and `MODELS`, which maps model names to `CellSpec`. Nothing else lists it.
A cell of somebody else's is added by `register_cell`, or by an entry point of the group `dgl_treestack.cells` in their
package: a class, which gets the name of the entry point, or a mapping from names to `CellSpec`.
"""

import importlib
import importlib.metadata
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from dgl_treestack.cells._contract import FORMS as FORMS
from dgl_treestack.cells._contract import PER_CHILD as PER_CHILD
from dgl_treestack.cells._contract import Cell as Cell
from dgl_treestack.cells._contract import CellSpec as CellSpec
from dgl_treestack.cells._contract import Noise as Noise
from dgl_treestack.cells._contract import Ops as Ops
from dgl_treestack.cells._contract import Shape as Shape
from dgl_treestack.cells._contract import Signals as Signals
from dgl_treestack.cells._contract import State as State
from dgl_treestack.cells._product import OperatorLinear as OperatorLinear
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression.operators import Operator

COMMON = ("dropout", "input_size", "share")  # what a configuration says beside a model's settings


GROUP = "dgl_treestack.cells"  # of entry points
_registered: dict[str, CellSpec] = {}


def models() -> dict[str, CellSpec]:
    """Every model by name: from entry points, from every file of this folder, and what was registered."""
    return {**_models_of_packages(), **{k: v for file in _files() for k, v in _models_of_file(file).items()}, **_registered}


def find(name: str) -> CellSpec | None:
    """The model of a name, None where there is none. Only files whose name begins the model's are imported, if that does."""
    if name in _registered:
        return _registered[name]
    for file in sorted(filter(name.startswith, _files()), key=len, reverse=True):
        if name in _models_of_file(file):
            return _models_of_file(file)[name]
    return models().get(name)


def register_cell(
    name: str, *, settings: Mapping[str, Any] | None = None, paper: str = "-", equations: str = "-", adds: str = ""
) -> Callable[[type[Cell]], type[Cell]]:
    """Decorate a cell's class, so that `build`, configurations and `treestack cells` know it by a name.

    settings, paper, equations, adds: as in `CellSpec`. Raises ConfigurationError when the name is that of another cell.

    >>> @register_cell("my_tree_rnn")  # doctest: +SKIP
    ... class MyTreeRNN(Cell): ...
    """

    def add(cell: type[Cell]) -> type[Cell]:
        _check_cell(cell, name)
        taken = find(name)
        if taken is not None and (taken.cell.__module__, taken.cell.__qualname__) != (cell.__module__, cell.__qualname__):
            raise ConfigurationError(f"The model name {name!r} is that of {taken.cell.__name__}. Take another one.")
        _registered[name] = CellSpec(cell, paper, equations, adds, settings or {})
        return cell

    return add


@cache
def _files() -> tuple[str, ...]:
    names = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in names if not name.startswith("_") and name != "initializers"))


def _models_of_file(name: str) -> Mapping[str, CellSpec]:
    models_of_file: Mapping[str, CellSpec] = importlib.import_module(f"{__name__}.{name}").MODELS
    return models_of_file


@cache
def _models_of_packages() -> dict[str, CellSpec]:
    table: dict[str, CellSpec] = {}
    for entry_point in importlib.metadata.entry_points(group=GROUP):
        named = entry_point.load()
        for name, model in (named if isinstance(named, Mapping) else {entry_point.name: CellSpec(named, "-", "-", "")}).items():
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
    if isinstance(name, str):
        model, label = find(name), name
        if model is None:
            raise ConfigurationError(unknown("model", name, models()))
    else:
        label = getattr(name, "__name__", str(name))
        _check_cell(name, label)
        model = CellSpec(name, "-", "-", "")
    allowed = [key for key in _settings_of(model.cell) if key not in COMMON]
    for key in settings:
        if key not in allowed:
            raise ConfigurationError(f"Model {label!r}: " + unknown("setting", key, allowed))
    common: dict[str, Any] = {"dropout": dropout, "input_size": input_size, "share": share}
    cell = model.cell(operators, tokens, hidden, **common, **{**model.settings, **settings})
    cell.settings = {**model.settings, **settings}  # for `repr`
    return cell


def _settings_of(cell: type[Cell]) -> list[str]:
    """The keyword arguments of a class and its bases, the class's own first."""
    names: dict[str, None] = {}
    for base in cell.__mro__:
        if issubclass(base, Cell):
            parameters = inspect.signature(base.__init__).parameters.values()
            names.update(dict.fromkeys(p.name for p in parameters if p.kind is p.KEYWORD_ONLY))
    return list(names)
