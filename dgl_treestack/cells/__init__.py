"""Recursive cells, one file each, and the table of their model names.

A cell's file defines a class derived from `Cell`, and `MODELS`, which maps model names to `CellSpec`; the table collects the
files of this folder. Other cells are added by `register_cell`, or by an entry point of the group `dgl_treestack.cells` in their
package: a class, whose model name is that of the entry point, or a mapping from names to `CellSpec`.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from dgl_treestack import plugins
from dgl_treestack.cells._contract import FORMS as FORMS
from dgl_treestack.cells._contract import PER_CHILD as PER_CHILD
from dgl_treestack.cells._contract import Cell as Cell
from dgl_treestack.cells._contract import CellSpec as CellSpec
from dgl_treestack.cells._contract import Noise as Noise
from dgl_treestack.cells._contract import Ops as Ops
from dgl_treestack.cells._contract import Shape as Shape
from dgl_treestack.cells._contract import Signals as Signals
from dgl_treestack.cells._contract import State as State
from dgl_treestack.cells._contract import dropped as dropped
from dgl_treestack.cells._layers import LeafEncoder
from dgl_treestack.cells._layers import OperatorLinear as OperatorLinear
from dgl_treestack.cells._layers import draw_linear as draw_linear
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression.operators import Operator
from dgl_treestack.settings import whole

COMMON = ("dropout", "input_size", "share")  # keyword arguments of every cell, not settings of a model
GROUP = "dgl_treestack.cells"  # of entry points
_FILES = tuple(
    sorted(module.name for module in pkgutil.iter_modules(__path__) if not (module.ispkg or module.name.startswith("_")))
)
_registered: dict[str, CellSpec] = {}


def models() -> dict[str, CellSpec]:
    """Return all models by name: those of installed packages, of the files of this folder, and the registered ones."""
    table = dict(_models_of_packages())
    for file in _FILES:
        table.update(importlib.import_module(f"{__name__}.{file}").MODELS)
    return {**table, **_registered}


def find(name: str) -> CellSpec | None:
    """Return the model of a name, or None.

    Files whose name is a prefix of the model name are searched first, so that usually one cell is imported, not all of them.
    """
    return _registered_or_of_file(name) or models().get(name)


def _registered_or_of_file(name: str) -> CellSpec | None:
    """Return the registered model of a name, or that of a file of this folder."""
    if name in _registered:
        return _registered[name]
    for file in sorted(filter(name.startswith, _FILES), key=len, reverse=True):
        models_of_file: Mapping[str, CellSpec] = importlib.import_module(f"{__name__}.{file}").MODELS
        if name in models_of_file:
            return models_of_file[name]
    return None


def register_cell(
    name: str, *, settings: Mapping[str, Any] | None = None, paper: str = "-", equations: str = "-", adds: str = ""
) -> Callable[[type[Cell]], type[Cell]]:
    """Decorate a cell's class, so that `build`, configurations and `treestack cells` know it by a name.

    settings, paper, equations, adds: as in `CellSpec`. Raises ConfigurationError when another cell has the name; a name that an
    installed package adds may be used anew.

    >>> @register_cell("my_tree_rnn")  # doctest: +SKIP
    ... class MyTreeRNN(Cell): ...
    """

    def add(cell: type[Cell]) -> type[Cell]:
        _check_cell(cell, name)
        spec = _registered_or_of_file(name)
        # A class may be registered again under its name: a notebook may run the definition more than once.
        if spec is not None and (spec.cell.__module__, spec.cell.__qualname__) != (cell.__module__, cell.__qualname__):
            raise ConfigurationError(f"The model name {name!r} is that of {spec.cell.__name__}. Choose another one.")
        _registered[name] = CellSpec(cell, paper, equations, adds, settings or {})
        return cell

    return add


@cache
def _models_of_packages() -> dict[str, CellSpec]:
    """Return the models that the entry points of installed packages name."""
    targets = plugins.load(GROUP, lambda name, target: _check_specs(_specs(name, target)))
    return {model: spec for name, target in targets for model, spec in _specs(name, target).items()}


def _specs(name: str, target: Any) -> Mapping[str, CellSpec]:
    """Return the models of an entry point: those of a mapping, or the class of its name."""
    return target if isinstance(target, Mapping) else {name: CellSpec(target)}


def _check_specs(specs: Mapping[str, CellSpec]) -> None:
    """Raise ConfigurationError unless all of these are models."""
    for name, spec in specs.items():
        _check_cell(spec.cell if isinstance(spec, CellSpec) else spec, name)


def _check_cell(cell: object, name: str) -> None:
    """Raise ConfigurationError unless the object of a model name is a class of cells."""
    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        raise ConfigurationError(f"The model {name!r} is no class derived from dgl_treestack.Cell: {cell!r}.")


def build(
    name: str | type[Cell],
    operators: Sequence[Operator],
    tokens: int,
    hidden: int,
    *,
    dropout: float = 0.0,
    input_size: int = 0,
    share: str = "operator",
    vector_size: int = 0,
    **settings: Any,
) -> Cell:
    """Return the cell of a model name, or of a class.

    operators, tokens, hidden, dropout, input_size, share: as in `Cell`. vector_size: width of the table's rows, which a linear
    layer maps to the states of leaves; 0 for rows that are states. settings: override those of the model name.
    Parameters are uninitialised until `reset_parameters(generator)` or `load_state_dict`.
    Raises ConfigurationError for an unknown name or setting, and for a `vector_size` if the cell has its own leaf encoder.
    """
    if isinstance(name, str):
        spec, label = find(name), name
        if spec is None:
            raise ConfigurationError(unknown("model", name, models()))
    else:
        label = getattr(name, "__name__", str(name))
        _check_cell(name, label)
        spec = CellSpec(name)
    cells_of_mro = [base for base in spec.cell.__mro__ if issubclass(base, Cell)]
    parameters = [p for base in cells_of_mro for p in inspect.signature(base.__init__).parameters.values()]
    allowed = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - set(COMMON)
    for key in settings:
        if key not in allowed:
            raise ConfigurationError(f"Model {label!r}: " + unknown("setting", key, allowed))
    common: dict[str, Any] = {"dropout": dropout, "input_size": input_size, "share": share}
    cell = spec.cell(operators, tokens, hidden, **common, **{**spec.settings, **settings})
    if cell.fields.get("h") != (hidden,):
        raise ConfigurationError(f"The fields of {label!r} are {cell.fields}; tasks read 'h', which must be ({hidden},).")
    if dropout and not cell.noise:
        raise ConfigurationError(f"{label!r} declares no noise, so that dropout = {dropout} has no effect. Set it to 0.")
    cell.settings = {**spec.settings, **settings}  # for `repr`
    if whole(vector_size, "vector_size", 0):
        cell.leaves = LeafEncoder(tokens, hidden, leaf_encoder(cell).activation, vector_size)
    return cell


def leaf_encoder(cell: Cell) -> LeafEncoder:
    """Return the leaf encoder of a cell, whose table can hold vectors. Raises ConfigurationError if the cell has its own."""
    if type(cell.leaves) is not LeafEncoder:
        raise ConfigurationError(
            f"{type(cell).__name__} has its own leaf encoder, {type(cell.leaves).__name__}, which takes no vectors. "
            f"Leave out 'vectors' and 'vector_size', or use the LeafEncoder that every cell begins with."
        )
    return cell.leaves
