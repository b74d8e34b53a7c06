"""A sequence is a chain of nodes: a sequence cell as a recursive cell, which `propagate` runs on a DGL graph.

The chain's first node is the leaf, the state before the first token; every token is a node of the one operator `next` above it,
with its vector as external input, node feature `input`.
"""

from torch import Tensor

from dgl_treestack.cells import Cell, Noise, Ops, State
from dgl_treestack.cells import Signals as CellSignals
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import Operator, Signature
from dgl_treestack.sequence._contract import SequenceCell

SEQUENCE = Signature("sequence", (Operator("next", 1),))


def chain(tokens: int) -> Expression:
    """The tree of so many tokens."""
    return Expression.from_prefix("next " * tokens + "Integer:0", SEQUENCE)


class Chain(Cell):
    """A sequence cell, without restarts, behind the contract of recursive cells. A leaf's vector is not looked at."""

    def __init__(self, cell: SequenceCell):
        super().__init__(SEQUENCE.operators, 1, cell.hidden, input_size=cell.inputs)
        self.sequence = cell
        self.tokens = None  # type: ignore[assignment]  # leaves are not looked up
        self.fields, self.signals, self.empty = dict(cell.fields), dict(cell.signals), dict(cell.empty)

    def leaf(self, token: Tensor, number: Tensor) -> State:
        return self.sequence.start(len(token))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, CellSignals]:
        assert inputs is not None  # the cell takes one
        before = {name: values[:, 0] for name, values in children.items()}
        return self.sequence.step(self.sequence.drive(inputs), before)
