"""The fast driver: the same steps as `topo`, over contiguous rows, with one function for autograd around all of them."""

from collections.abc import Sequence

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import PER_CHILD, Cell
from dgl_treestack.operators import Signature
from dgl_treestack.propagate.levels.plan import make_plan
from dgl_treestack.propagate.levels.sweep import Sweep, Work
from dgl_treestack.propagate.noise import Noise


def run(graph: DGLGraph, cell: Cell, signature: Signature, signals: Sequence[str], noise: Noise) -> None:
    """See `propagate`."""
    plan = make_plan(graph, signature)
    width = int(graph.edata["slot"].max()) + 1 if graph.num_edges() else 1
    shapes = {name: tuple(width if size == PER_CHILD else size for size in cell.signals[name]) for name in signals}
    inputs = graph.ndata["input"] if cell.input_size else None
    h = cell.leaf(graph.ndata["token"][plan.leaves], graph.ndata["number"][plan.leaves])["h"]
    work = Work(cell, plan, inputs, noise, shapes)
    rows = Sweep.apply(work, h, inputs, *work.parameters)
    for name, value in zip(work.names, rows, strict=True):
        placed = value.index_select(0, plan.row)
        graph.ndata[name if name in cell.fields else f"signal/{name}"] = placed.flatten(1) if name in cell.fields else placed
