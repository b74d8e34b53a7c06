"""Drivers: they run any cell over a batched graph. `propagate` writes states and signals into the graph's node features."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import Cell
from dgl_treestack.data import graph as graphs
from dgl_treestack.data.forest import Forest, feature, size
from dgl_treestack.data.forest import Source as Source
from dgl_treestack.data.wellformed import Checked, check
from dgl_treestack.errors import ConfigurationError, GraphError, unknown
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.propagate import levels, topo
from dgl_treestack.propagate.levels.plan import Plans as Plans
from dgl_treestack.propagate.noise import Noise
from dgl_treestack.propagate.noise import draw_noise as draw_noise
from dgl_treestack.propagate.states import States as States

ENGINES = ("topo", "levels", "levels/traced", "levels/compiled")


def propagate(
    graph: DGLGraph,
    cell: Cell,
    *,
    engine: str = "levels",
    signature: Signature = MATH,
    signals: Sequence[str] = (),
    noise: Noise | None = None,
) -> Tensor:
    """Run a cell from the leaves to the roots of every tree of a batch.

    graph: trees, or nodes with several parents, in the form that `dgl_treestack.data.graph` describes, wherever they come
    from; node feature `input` (N, input_size) is used when the cell takes one.
    signals: names out of `cell.signals` to compute. noise: the result of `draw_noise`, for dropout in training.
    engine: `topo`; `levels`; `levels/compiled`, which compiles the cell to native code when it first runs it (up to a minute or
    two, once) and keeps the code in a folder; `levels/traced`, the same loops around steps that are not compiled, to find where
    a difference comes from. The last two need a C++ compiler and Python.h.
    Writes `h` (N, H), every other field flattened, such as `stack` (N, S * H), and `signal/<name>` (N, *shape), zero at leaves
    and at the root of an equation, whose state is zero too. Returns `h`.
    Raises GraphError for a graph that is not well formed, ConfigurationError for an unknown engine or signal, and where a
    compiler is needed and not there.
    """
    states = compute(graph, cell, engine=engine, signature=signature, signals=signals, noise=noise)
    states.put_on(graph)
    return graph.ndata["h"]


def compute(
    source: Source,
    cell: Cell,
    *,
    engine: str = "levels",
    signature: Signature = MATH,
    signals: Sequence[str] = (),
    noise: Noise | None = None,
    plans: Plans | None = None,
) -> States:
    """Compute the states that `propagate` writes, and return them: for callers that need the states of a few nodes.

    source: a graph, or the forest that such a graph would be built from. The cell may be on a GPU while the graph is not,
    except with `topo`. plans: cached plans of this batch.
    """
    if engine not in ENGINES:
        raise ConfigurationError(unknown("engine", engine, ENGINES))
    for name in signals:
        if name not in cell.signals:
            raise ConfigurationError(unknown("signal", name, cell.signals))
    checked = None if isinstance(source, Forest) else _checked(source, cell, signature)
    if cell.input_size:
        _check_input(source, cell)
    for name, factors in (noise or {}).items():
        if len(factors) != size(source):
            raise ConfigurationError(f"The dropout of {name!r} was drawn for {len(factors)} nodes, not for {size(source)}.")
    if engine == "topo":
        if isinstance(source, Forest):
            return topo.run(graphs.build(source), cell, signature, signals, noise or Noise())
        return topo.run(source, cell, signature, signals, noise or Noise())
    plans = plans or Plans(signature)
    return levels.run(source, cell, signals, noise or Noise(), plans, engine, checked)


def _checked(graph: DGLGraph, cell: Cell, signature: Signature) -> Checked:
    """A graph after `check`. Raises ConfigurationError for a cell that was made for other operators than the graph has."""
    names = {operator.name: None for operator in cell.operators}
    if [*names] != [name for name in signature.names if name in names]:
        raise ConfigurationError(
            f"The cell was made for other operators than those of {signature.name!r}, or for another order of them. Give the "
            "signature that cell and graph were made with: signature=..."
        )
    checked = check(graph, signature, cell.tokens)
    for op in np.unique(checked.op).tolist():
        if op >= 0 and signature.names[op] not in (signature.root, *names):
            raise ConfigurationError(
                f"The graph has the operator {signature.names[op]!r} of {signature.name!r}, for which the cell was not made. "
                "Give the signature that the graph was made with: signature=..., or another cell."
            )
    return checked


def _check_input(source: Source, cell: Cell) -> None:
    """Raise ConfigurationError where external input is missing, GraphError where it is no (N, input_size) of real numbers."""
    values = feature(source, "input")
    if values.shape != (size(source), cell.input_size) or not values.is_floating_point():
        raise GraphError(
            f"graph.ndata['input'] is of type {values.dtype} and shape {tuple(values.shape)}; the cell takes real numbers of "
            f"shape {(size(source), cell.input_size)}."
        )
