"""The contract of a cell: one step of the recursion, children's states in, parent's state out.

A cell never sees a graph, a loss or a file. What depends on the operator is `ops.linear(product, x)` alone; everything
else in a step is pointwise along nodes. `propagate` runs any cell; `tests/cells` checks every file of this folder.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from dgl_treestack.cells._leaf import LeafEncoder
from dgl_treestack.cells._product import OperatorLinear
from dgl_treestack.operators import Operator

State = dict[str, Tensor]
Shape = tuple[int, ...]
PER_CHILD = -1  # in the shape of a signal: one entry per child


@runtime_checkable
class Ops(Protocol):
    """The operators of a frontier, as a cell sees them."""

    def linear(self, product: str, x: Tensor) -> Tensor:
        """Weight and bias of every node's own operator applied to its row of x, (nodes, ..., in) -> (nodes, ..., out)."""
        ...


class Cell(nn.Module, abc.ABC):
    """Base of all recursive cells.

    operators: those it has parameters for. tokens: rows of the embedding table. hidden: width H of a state.
    dropout: probability that an entry of a `noise` field is dropped in training. input_size: width of the external input
    of inner nodes, 0 for none. share: `operator`, a set of weights for every operator, or `all`, one set for every arity.

    A subclass sets `fields` (what a node carries: name -> shape; tasks read `h`), `signals` (what it can show of itself) and
    `noise` (what dropout acts on), adds its products with `add_product`, and defines `node`.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        tokens: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        input_size: int = 0,
        share: str = "operator",
    ):
        super().__init__()
        self.operators = tuple(operators)
        self.hidden, self.dropout, self.input_size, self.share = hidden, dropout, input_size, share
        self.leaves = LeafEncoder(tokens, hidden)
        self.products = nn.ModuleDict()
        self.fields: dict[str, Shape] = {"h": (hidden,)}
        self.signals: dict[str, Shape] = {}
        self.noise: dict[str, Shape] = {}

    def add_product(self, name: str, inputs: tuple[int, int], outputs: tuple[int, int], bias: bool = True) -> None:
        """A per-operator linear map. `inputs` and `outputs` are (a, b) for a width of a + b * arity."""
        self.products[name] = OperatorLinear(self.operators, inputs, outputs, bias=bias, share=self.share)

    def leaf(self, token: Tensor, number: Tensor) -> State:
        """States of leaves: token (N,) rows of the table, or -1 and a value in number (N,). Every field but h is empty."""
        h = self.leaves(token, number)
        return {name: h if name == "h" else h.new_zeros(len(h), *shape) for name, shape in self.fields.items()}

    @abc.abstractmethod
    def node(
        self, ops: Ops, children: State, inputs: Tensor | None, noise: Mapping[str, Tensor]
    ) -> tuple[State, dict[str, Tensor]]:
        """One step for a frontier of nodes of one arity A.

        children: field -> (nodes, A, *shape). inputs: (nodes, input_size) or None. noise: field -> (nodes, *shape) factors
        for dropout, empty outside training. Returns the state, field -> (nodes, *shape), and the signals.
        """

    def concatenate(self, h: Tensor, inputs: Tensor | None) -> Tensor:
        """[h_1; ...; h_A; input], (nodes, A, H) -> (nodes, A * H + input_size): eq. 1 of Arabshahi 2019."""
        x = h.flatten(1)
        return x if inputs is None else torch.cat([x, inputs], dim=1)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values from a generator."""
        self.leaves.reset_parameters(generator)
        for product in self.products.values():
            cast(OperatorLinear, product).reset_parameters(generator)

    def extra_repr(self) -> str:
        shapes = ", ".join(f"{name}={tuple(shape)}" for name, shape in self.fields.items())
        return f"{len(self.operators)} operators, {shapes}, dropout={self.dropout}, share={self.share!r}"


def dropped(x: Tensor, noise: Mapping[str, Tensor], name: str) -> Tensor:
    """x with the dropout of a noise field applied, or x itself when there is none."""
    return x * noise[name] if name in noise else x
