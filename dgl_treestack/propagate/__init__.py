"""Drivers: they run any cell over a batched graph. `propagate` writes states and signals into the graph's node features."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import Cell
from dgl_treestack.data import graph as graphs
from dgl_treestack.data.forest import Forest, columns, feature, in_order_of_appearance, size
from dgl_treestack.data.forest import Source as Source
from dgl_treestack.data.wellformed import Checked, check
from dgl_treestack.errors import ConfigurationError, GraphError, unknown
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.propagate import topo
from dgl_treestack.propagate.levels import sweep
from dgl_treestack.propagate.levels.eager import EagerStepper
from dgl_treestack.propagate.levels.plan import Options as Options
from dgl_treestack.propagate.levels.plan import Plans as Plans

ENGINES = ("topo", "levels", "levels/traced", "levels/compiled")


class Noise(dict[str, Tensor]):
    """Factors by field, (N, *shape). subtree: (N,) numbers of subtrees if equal subtrees have equal factors, and so equal
    states; else None."""

    subtree: np.ndarray | None = None


def draw_noise(
    cell: Cell, source: Source, generator: torch.Generator, *, per_subtree: bool = False, signature: Signature = MATH
) -> Noise:
    """Factors for every noise field of a cell: name -> (N, *shape), 0 with probability `cell.dropout`, else scaled up.

    Empty when the cell has no dropout or is in evaluation mode. They are drawn for every node, or for every distinct subtree
    of the batch. Raises GraphError for a graph that is not well formed, if subtrees are asked for.
    """
    noise = Noise()
    if not (cell.training and cell.dropout):
        return noise
    like, keep = next(cell.parameters()), 1 - cell.dropout
    count, row = size(source), None
    if per_subtree:
        noise.subtree = in_order_of_appearance(columns(source, signature, cell.tokens).subtree)
        count, row = int(noise.subtree.max(initial=-1)) + 1, torch.from_numpy(noise.subtree)
    for name, shape in cell.noise.items():
        factors = torch.empty(count, *shape).bernoulli_(keep, generator=generator).div_(keep)
        noise[name] = (factors if row is None else factors[row]).to(like)
    return noise


class States:
    """Fields and signals of the nodes of a batch, as rows: nodes with equal states may share one.

    rows: name -> (R, *shape), signals as `signal/<name>`. row: (N,) the row of every node, or None where row n is node n.
    arena: the memory of the rows, kept alive with them; `of` and `put_on` copy.
    """

    def __init__(self, rows: Mapping[str, Tensor], row: Tensor | None = None, arena: object = None):
        self.rows, self.row, self.arena = rows, row, arena

    def of(self, name: str, nodes: Tensor) -> Tensor:
        """A field of some nodes: their indices (...) -> (..., *shape), on the device of the states."""
        rows = self.rows[name]
        index = nodes.to(rows.device, non_blocking=True)
        index = index if self.row is None else self.row.take(index)
        return rows.index_select(0, index.reshape(-1)).view(*index.shape, *rows.shape[1:])

    def put_on(self, graph: DGLGraph) -> None:
        """Write everything into the graph's node features, on its device; fields are flattened."""
        for name, rows in self.rows.items():
            by_node = rows if self.row is None else rows.index_select(0, self.row)
            graph.ndata[name] = (by_node if name.startswith("signal/") else by_node.flatten(1)).to(graph.device)


def propagate(
    graph: DGLGraph,
    cell: Cell,
    *,
    engine: str = "levels",
    signature: Signature = MATH,
    signals: Sequence[str] = (),
    noise: Noise | None = None,
    options: Options | None = None,
) -> Tensor:
    """Run a cell from the leaves to the roots of every tree of a batch.

    graph: trees, or nodes with several parents, in the form that `dgl_treestack.data.graph` describes, wherever they come
    from; node feature `input` (N, input_size) is used when the cell takes one.
    signals: names out of `cell.signals` to compute. noise: the result of `draw_noise`, for dropout in training.
    engine: `topo`; `levels`; `levels/compiled`, which compiles the cell to native code when it first runs it (up to a minute or
    two, once) and keeps the code in a folder; `levels/traced`, the same loops around steps that are not compiled, to find where
    a difference comes from. The last two need a C++ compiler and Python.h. options: settings of `levels`.
    Writes `h` (N, H), every other field flattened, such as `stack` (N, S * H), and `signal/<name>` (N, *shape), zero at leaves
    and at the root of an equation, whose state is zero too. Returns `h`.
    Raises GraphError for a graph that is not well formed, ConfigurationError for an unknown engine or signal, and where a
    compiler is needed and not there.
    """
    plans = Plans(signature, options=options or Options())
    states = compute(graph, cell, engine=engine, signature=signature, signals=signals, noise=noise, plans=plans)
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
    noise = Noise() if noise is None else noise
    if engine == "topo":
        graph = graphs.build(source) if isinstance(source, Forest) else source
        return States(topo.run(graph, cell, signature, signals, noise))
    stepper_of: Callable[[sweep.Work], sweep.Stepper] = EagerStepper  # computes signals, whatever the engine
    if engine != "levels" and not signals:
        from dgl_treestack.propagate.compiled import kernels  # loads Inductor
        from dgl_treestack.propagate.compiled.stepper import CompiledStepper

        stepper_of = partial(CompiledStepper, build=kernels.compiled if engine == "levels/compiled" else kernels.eager)
    plans = plans or Plans(signature)
    return States(*sweep.run(source, cell, signals, noise, noise.subtree, plans, stepper_of, checked))


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
