"""Run any cell over a batched graph; `propagate` writes states and signals into the graph's node features."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack._dgl import DGLGraph
from dgl_treestack._torch import random_bits
from dgl_treestack.cells import PER_CHILD, Cell
from dgl_treestack.data import graph as graphs
from dgl_treestack.data.forest import Forest, columns, feature, in_order_of_appearance, size, uncompiled
from dgl_treestack.data.forest import Source as Source
from dgl_treestack.data.wellformed import Checked, check
from dgl_treestack.errors import ConfigurationError, GraphError, unknown
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.propagate import topo
from dgl_treestack.propagate.compiled.library import set_threads as set_threads
from dgl_treestack.propagate.levels.eager import EagerStepper
from dgl_treestack.propagate.levels.plan import Options as Options
from dgl_treestack.propagate.levels.plan import Plan
from dgl_treestack.propagate.levels.plan import Plans as Plans
from dgl_treestack.propagate.levels.static import StaticPlan, StaticStepper
from dgl_treestack.propagate.levels.sweep import Arena, Stepper, Work, sweep

logger = logging.getLogger(__name__)
ENGINES = ("topo", "levels", "levels/traced", "levels/compiled")


class Noise(dict[str, Tensor]):
    """Dropout factors (N, *shape) by field. subtree: (N,) subtree ids if equal subtrees have equal factors, else None."""

    subtree: np.ndarray | None = None


def draw_noise(
    cell: Cell, source: Source, generator: torch.Generator, *, per_subtree: bool = False, signature: Signature = MATH
) -> Noise:
    """Draw dropout factors for every noise field of a cell: name -> (N, *shape), 0 with probability p, else 1 / (1 - p).

    Empty without dropout and in evaluation mode. per_subtree: draw for every distinct subtree of the batch in place of every
    node, which raises GraphError for a graph that is not well formed.
    """
    noise = Noise()
    if not (cell.training and cell.dropout):
        return noise
    device = next(cell.parameters()).device
    if per_subtree:
        # In order of appearance, so that a forest and the graph built from it draw the same factors.
        noise.subtree = in_order_of_appearance(columns(source, signature, cell.tokens).subtree)
        ids = torch.from_numpy(noise.subtree).to(device, non_blocking=True)
    else:
        ids = torch.arange(size(source), device=device)
    noise.update(noise_of_nodes(cell, ids, torch.tensor(draw_key(generator)).to(device, non_blocking=True)))
    return noise


def draw_key(generator: torch.Generator) -> int:
    """Draw the key of a batch's dropout."""
    return int(torch.randint(2**62, (), generator=generator))


def noise_of_nodes(cell: Cell, ids: Tensor, key: Tensor) -> dict[str, Tensor]:
    """The dropout factors of nodes, a function of key, id (N,), field and element: the same on every device."""
    like, factors = next(cell.parameters()), {}
    for i, (name, shape) in enumerate(cell.noise.items()):
        is_kept = random_bits(key + i, ids, torch.Size(shape).numel()) < round((1 - cell.dropout) * 2**31)
        factors[name] = (is_kept.to(like) / (1 - cell.dropout)).view(len(ids), *shape)
    return factors


class States:
    """Fields and signals of the nodes of a batch. Nodes with equal states may share a row.

    rows: name -> (R, *shape), signals as `signal/<name>`. row: (N,) the row of every node, None if row n is node n.
    arena: owns the memory of the rows, None with `topo`; `of` and `put_on` copy them.
    """

    def __init__(self, rows: Mapping[str, Tensor], row: Tensor | None = None, arena: Arena | None = None):
        self.rows, self.row, self.arena = rows, row, arena

    def of(self, name: str, nodes: Tensor) -> Tensor:
        """A field of the nodes with indices (...), as (..., *shape) on the device of the states."""
        rows = self.rows[name]
        index = nodes.to(rows.device, non_blocking=True)
        index = index if self.row is None else self.row.take(index)
        flat_index = index.reshape(-1)
        # The backward of `index_select` adds in any order on a GPU.
        chosen = functional.embedding(flat_index, rows.flatten(1)) if rows.is_cuda else rows.index_select(0, flat_index)
        return chosen.view(*index.shape, *rows.shape[1:])

    def put_on(self, graph: DGLGraph) -> None:
        """Write fields, flattened, and signals into the graph's node features, on its device."""
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

    graph: trees or DAGs from any source, in the form that `dgl_treestack.data.graph` describes, with node feature `input`
    (N, input_size) if the cell takes external input.
    signals: names from `cell.signals` to compute. noise: the result of `draw_noise`, for dropout in training.
    engine: `topo`; `levels`; `levels/compiled`, which compiles the cell to native code at its first use (a minute or two) and
    caches the code on disk; `levels/traced`, the same loops around uncompiled steps, to locate a difference between engines.
    The last two need a C++ compiler and Python.h. options: settings of `levels`.
    Writes `h` (N, H), every other field flattened, such as `stack` (N, S * H), and `signal/<name>` (N, *shape). Signals are
    zero at leaves; signals and state are zero at the root of an equation. Returns `h`.
    Raises GraphError for a graph that is not well formed, ConfigurationError for an unknown engine or signal, or a missing
    compiler.
    """
    plans = Plans(signature, options=options or Options())
    states = compute(graph, cell, engine=engine, signature=signature, signals=signals, noise=noise, plans=plans)
    states.put_on(graph)
    return graph.ndata["h"]


@uncompiled
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
    """Return the states that `propagate` writes, for callers that need those of a few nodes.

    source: a graph, or the forest from which it would be built. The cell may be on a GPU and the graph on the CPU.
    plans: cached plans of this batch.
    Raises GraphError for a graph that is not well formed, ConfigurationError for an unknown engine or signal, for dropout that
    was drawn for another batch, and for native code without a compiler.
    """
    for kind, name, known in [("engine", engine, ENGINES), *(("signal", name, cell.signals) for name in signals)]:
        if name not in known:
            raise ConfigurationError(unknown(kind, name, known))
    checked = None if isinstance(source, Forest) else _checked(source, cell, signature)
    noise, parameter = Noise() if noise is None else noise, next(cell.parameters())
    inputs: Tensor | None = None
    if cell.input_size:
        inputs, shape = feature(source, "input"), (size(source), cell.input_size)
        if inputs.shape != shape or not inputs.is_floating_point():
            raise GraphError(
                f"graph.ndata['input'] has dtype {inputs.dtype} and shape {tuple(inputs.shape)}; the cell takes real numbers "
                f"of shape {shape}."
            )
        inputs = inputs.to(parameter.device)
    for name, factors in noise.items():
        if len(factors) != size(source):
            raise ConfigurationError(f"The dropout of {name!r} was drawn for {len(factors)} nodes, not for {size(source)}.")
    if engine == "topo":
        graph = graphs.build(source) if isinstance(source, Forest) else source
        return States(topo.run(graph, cell, signature, signals, noise))
    make_stepper: Callable[[Work], Stepper] = EagerStepper  # with signals, for every engine
    if engine != "levels" and not signals:
        from dgl_treestack.propagate.compiled import kernels  # loads Inductor
        from dgl_treestack.propagate.compiled.stepper import CompiledStepper

        make_stepper = partial(CompiledStepper, build=kernels.compiled if engine == "levels/compiled" else kernels.eager)
    plans = plans or Plans(signature)
    shared = inputs is None and (not noise or noise.subtree is not None)
    plan = plans.get(source, shared=shared, device=parameter.device, noise_subtree=noise.subtree, checked=checked)
    return _states_of_plan(plan, cell, signals, noise, inputs, plans.options, make_stepper)


def compute_static(
    static: StaticPlan,
    cell: Cell,
    *,
    signals: Sequence[str] = (),
    noise: Mapping[str, Tensor] | None = None,
    inputs: Tensor | None = None,
) -> States:
    """Return the states of the batch that a plan of fixed shape has, in operations that are the same for every batch.

    noise, inputs: (nodes of the plan, ...).
    """
    options = Options(group=True, recorded_rows=2**62, arena_numbers=2**62)  # all records are kept, on torch's own memory
    run = partial(_states_of_plan, static.plan, cell, signals, noise or {}, inputs, options)
    if static.build is None or signals:
        return run(partial(StaticStepper, static=static))
    from dgl_treestack.propagate.compiled import fused  # loads Inductor

    if not static.is_checked:
        static.is_checked = True
        if reason := fused.fault(static, cell, run):
            logger.warning(
                "%s cannot be compiled for %s: %s; its steps stay eager", type(cell).__name__, static.buffer.device, reason
            )
            static.build = None
    return run(partial(StaticStepper if static.build is None else fused.FusedStepper, static=static))


def _states_of_plan(
    plan: Plan,
    cell: Cell,
    signals: Sequence[str],
    noise: Mapping[str, Tensor],
    inputs: Tensor | None,
    options: Options,
    make_stepper: Callable[[Work], Stepper],
) -> States:
    """Run a cell over the frontiers of a plan."""
    parameter = next(cell.parameters())
    shapes = {name: tuple(plan.width if n == PER_CHILD else n for n in cell.signals[name]) for name in signals}
    arena = Arena(parameter.dtype, parameter.device, options)
    work = Work(cell, plan, inputs, noise, {**cell.fields, **shapes}, arena)
    rows = sweep(work, make_stepper(work), cell.leaf(plan.token, plan.number, plan.encoded)["h"])
    return States({name if name in cell.fields else f"signal/{name}": row for name, row in rows.items()}, plan.row, arena)


def _checked(graph: DGLGraph, cell: Cell, signature: Signature) -> Checked:
    """Check a graph, and its operators against those of the cell: GraphError, ConfigurationError."""
    # Graphs name operators by number: with the numbering of another signature a cell would compute, without an error.
    names = {operator.name: None for operator in cell.operators}
    if [*names] != [name for name in signature.names if name in names]:
        raise ConfigurationError(
            f"The cell was made for other operators than those of {signature.name!r}, or they are in another order. Pass the "
            "signature of cell and graph: signature=..."
        )
    checked = check(graph, signature, cell.tokens)
    for op in np.unique(checked.op).tolist():
        if op >= 0 and signature.names[op] not in (signature.root, *names):
            raise ConfigurationError(
                f"The graph has the operator {signature.names[op]!r} of {signature.name!r}, for which the cell was not made. "
                "Pass the signature of the graph, signature=..., or another cell."
            )
    return checked
