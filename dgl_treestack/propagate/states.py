"""The result of a driver: the fields and signals of the nodes of a batch."""

from collections.abc import Mapping

from torch import Tensor

from dgl_treestack._dgl import DGLGraph


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
