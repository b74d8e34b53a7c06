"""What a driver returns: what the nodes of a batch carry."""

from collections.abc import Mapping

from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import Cell, State


class States:
    """Fields and signals of the nodes of a batch, as rows: nodes with equal states may share one.

    rows: name -> (R, *shape), signals as `signal/<name>`. row: (N,) the row of every node, or None where row n is node n.
    memory: what the rows lie in, if it is to be used again when nobody holds them; `of` and `put_on` copy.
    """

    def __init__(self, rows: Mapping[str, Tensor], row: Tensor | None = None, memory: object = None):
        self.rows, self.row, self.memory = rows, row, memory

    def of(self, name: str, nodes: Tensor) -> Tensor:
        """A field of some nodes: their numbers (...) -> (..., *shape), on the device of the states."""
        rows = self.rows[name]
        chosen = nodes.to(rows.device, non_blocking=True)
        chosen = chosen if self.row is None else self.row.take(chosen)
        return rows.index_select(0, chosen.reshape(-1)).view(*chosen.shape, *rows.shape[1:])

    def put_on(self, graph: DGLGraph) -> None:
        """Leave everything on the graph, on its device, by node; fields flattened."""
        for name, rows in self.rows.items():
            placed = rows if self.row is None else rows.index_select(0, self.row)
            graph.ndata[name] = (placed if name.startswith("signal/") else placed.flatten(1)).to(graph.device)


def check_state(state: State, cell: Cell, count: int) -> None:
    """Raise RuntimeError unless the state of `count` nodes has the shapes of the cell's fields."""
    for name, shape in cell.fields.items():
        if state[name].shape != (count, *shape):
            raise RuntimeError(
                f"{type(cell).__name__} returned {name!r} of shape {tuple(state[name].shape)}; "
                f"its fields promise {(count, *shape)} = (nodes, {', '.join(map(str, shape))})."
            )
