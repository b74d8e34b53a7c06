"""Drivers: they run any cell over a batched graph and leave what the nodes carry on the graph."""

from collections.abc import Callable, Sequence

from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import Cell
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.operators import MATH, Signature
from dgl_treestack.propagate import levels, topo
from dgl_treestack.propagate.noise import Noise
from dgl_treestack.propagate.noise import draw_noise as draw_noise

Engine = Callable[[DGLGraph, Cell, Signature, Sequence[str], Noise], None]
ENGINES: dict[str, Engine] = {"topo": topo.run, "levels": levels.run}


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

    graph: made by `dgl_treestack.graph`; node feature `input` (N, input_size) is used when the cell takes one.
    signals: names out of `cell.signals` to keep. noise: what `draw_noise` returns, for dropout in training.
    Leaves on the graph, and the first of them as result: `h` (N, H), every other field flattened, such as `stack`
    (N, S * H), and `signal/<name>` (N, *shape), zero at leaves and at the root of an equation, whose states are zero too.
    Raises ConfigurationError for an unknown engine or signal.
    """
    if engine not in ENGINES:
        raise ConfigurationError(unknown("engine", engine, ENGINES))
    for name in signals:
        if name not in cell.signals:
            raise ConfigurationError(unknown("signal", name, cell.signals))
    ENGINES[engine](graph, cell, signature, signals, noise or {})
    return graph.ndata["h"]
