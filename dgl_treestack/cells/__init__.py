"""Recursive cells, one file each, and the table of their model names.

A cell's file defines a class derived from `Cell`, and `MODELS`, which maps model names to `CellSpec`; the table collects the
files of this folder. Other cells are added by `register_cell`, or by an entry point of the group `dgl_treestack.cells` in their
package: a class, whose model name is that of the entry point, or a mapping from names to `CellSpec`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dgl_treestack.cells._contract import FORMS, PER_CHILD, Cell, CellSpec, Noise, Ops, Shape, Signals, State, dropped
from dgl_treestack.cells._layers import LeafEncoder, Map, OperatorLinear, apply_map, draw_linear
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression.operators import Operator
from dgl_treestack.plain_data import settings_of, whole
from dgl_treestack.resources import Registry, read_module

__all__ = ["FORMS", "PER_CHILD", "Cell", "CellSpec", "LeafEncoder", "Map", "Noise", "OperatorLinear", "Ops", "Shape", "Signals"]
__all__ += ["State", "apply_map", "build", "draw_linear", "dropped", "find", "leaf_encoder", "models", "register_cell"]

COMMON = ("dropout", "input_size", "share")  # keyword arguments of every cell, not settings of a model


def specs_of(base: type, name: str, target: Any) -> Mapping[str, CellSpec]:
    """Return the models of a mapping, or the class of a name as a model. Raises ConfigurationError for other classes."""
    specs = target if isinstance(target, Mapping) else {name: CellSpec(target)}
    for model, spec in specs.items():
        cell = spec.cell if isinstance(spec, CellSpec) else spec
        if not (isinstance(cell, type) and issubclass(cell, base)):
            raise ConfigurationError(f"The model {model!r} is no class derived from dgl_treestack.{base.__name__}: {cell!r}.")
    return specs


registry = Registry("model", Path(__file__).parent.glob("*.py"), read_module, partial(specs_of, Cell), "dgl_treestack.cells")
models, find = registry.table, registry.find


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
        specs_of(Cell, name, cell)
        registry.register(name, CellSpec(cell, paper, equations, adds, settings or {}))
        return cell

    return add


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
        spec = specs_of(Cell, label, name)[label]
    allowed = settings_of(spec.cell).keys() - set(COMMON)
    for key in settings:
        if key not in allowed:
            raise ConfigurationError(f"Model {label!r}: " + unknown("setting", key, allowed))
    common: dict[str, Any] = {"dropout": dropout, "input_size": input_size, "share": share}
    cell: Cell = spec.cell(operators, tokens, hidden, **common, **{**spec.settings, **settings})
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
