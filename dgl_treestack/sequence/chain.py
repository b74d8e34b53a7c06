"""A sequence as a chain of nodes: a sequence cell as a recursive cell, which `propagate` runs on a DGL graph.

The chain's first node is a leaf, the state before the first token. Every token is a node of the one operator `next` above it,
with its vector as external input, node feature `input`.
"""

from torch import Tensor

from dgl_treestack.cells import Cell, Noise, Ops, State
from dgl_treestack.cells import Signals as CellSignals
from dgl_treestack.expression.operators import Operator, Signature
from dgl_treestack.sequence._contract import SequenceCell

SEQUENCE = Signature("sequence", (Operator("next", 1),))


class Chain(Cell):
    """A sequence cell without restarts as a recursive cell, for trees over `SEQUENCE`. The symbols of leaves are not read."""

    def __init__(self, cell: SequenceCell):
        super().__init__(SEQUENCE.operators, 1, cell.hidden, input_size=cell.inputs)
        self.sequence = cell
        self.tokens = None  # type: ignore[assignment]  # leaves have no embedding
        self.fields, self.signals, self.empty = dict(cell.fields), dict(cell.signals), dict(cell.empty)

    def leaf(self, token: Tensor, number: Tensor, encoded: Tensor | None = None) -> State:
        return self.sequence.start(len(token))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, CellSignals]:
        assert inputs is not None  # input_size is at least 1
        before = {name: values[:, 0] for name, values in children.items()}
        return self.sequence.step(self.sequence.drive(inputs), before)
