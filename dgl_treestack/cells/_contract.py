"""The contract of a cell: one step of the recursion, children's states in, parent's state out.

A cell never sees a graph, a loss or a file. What depends on the operator is `ops.linear(product, x)` alone; everything
else in a step is pointwise along nodes. `propagate` runs any cell; `tests/cells` checks every file of this folder.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from dgl_treestack.cells._leaf import LeafEncoder
from dgl_treestack.cells._product import OperatorLinear
from dgl_treestack.cells._settings import number, whole
from dgl_treestack.cells.initializers import Constants, Draw, draw_linear
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression.operators import Operator

State = dict[str, Tensor]
Signals = dict[str, Tensor]
Noise = Mapping[str, Tensor]
Shape = tuple[int, ...]
FORMS = ("nary", "child_sum")
PER_CHILD = -1  # in the shape of a signal: one entry per child


@runtime_checkable
class Ops(Protocol):
    """The operators of a frontier, as a cell sees them."""

    def linear(self, product: str, x: Tensor) -> Tensor:
        """Weight and bias of every node's own operator applied to its row of x, (nodes, ..., in) -> (nodes, ..., out)."""
        ...


def dropped(x: Tensor, noise: Noise, name: str) -> Tensor:
    """x with the dropout of a noise field applied, or x itself when there is none."""
    return x * noise[name] if name in noise else x


class Cell(nn.Module, abc.ABC):
    """Base of all recursive cells.

    operators: those it has parameters for. tokens: rows of the embedding table. hidden: width H of a state.
    dropout: probability that an entry of a `noise` field is dropped in training. input_size: width of the external input
    of inner nodes, 0 for none. share: `operator`, a set of weights for every operator, or `all`, one set for every arity.
    form: `nary`, children are told apart and their vectors concatenated, or `child_sum`, their vectors are summed, their
    order is forgotten and an operator may take any number of them (Tai et al. 2015, sections 3.1 and 3.2).

    A subclass sets `fields` (what a node carries: name -> shape; tasks read `h`), `signals` (what it can show of itself),
    `noise` (what dropout acts on) and `empty` (what a field of a leaf is filled with, where not zero), adds its products with
    `add_product` and `add_map`, and defines `node`.
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
        form: str = "nary",
    ):
        super().__init__()
        if form not in FORMS:
            raise ConfigurationError(unknown("form of a cell", form, FORMS))
        number(dropout, "dropout", 0.0, 1.0)
        whole(input_size, "input_size", 0)
        self.operators, self.settings, self.tokens = tuple(operators), dict[str, object](), tokens
        self.hidden, self.dropout, self.input_size, self.share, self.form = hidden, dropout, input_size, share, form
        self.leaves = LeafEncoder(tokens, hidden)
        self.products = nn.ModuleDict()
        self.fields: dict[str, Shape] = {"h": (hidden,)}
        self.signals: dict[str, Shape] = {}
        self.noise: dict[str, Shape] = {}
        self.empty: dict[str, float] = {}

    def add_product(
        self,
        name: str,
        inputs: tuple[int, int],
        outputs: tuple[int, int],
        *,
        bias: bool = True,
        share: str = "",
        draw: Draw = draw_linear,
    ) -> None:
        """A per-operator linear map. `inputs` and `outputs` are (a, b) for a width of a + b * arity; without inputs it is a
        bias alone. share: where not the cell's. draw: fills weight and bias at the start."""
        self.products[name] = OperatorLinear(self.operators, inputs, outputs, bias=bias, share=share or self.share, draw=draw)

    def joined(self, size: int, external: bool = True) -> tuple[int, int]:
        """Width, as `add_product` takes it, of what `join` makes of children's vectors of a size (and external input)."""
        extra = self.input_size if external else 0
        return (extra, size) if self.form == "nary" else (extra + size, 0)

    def join(self, vectors: Tensor, inputs: Tensor | None = None) -> Tensor:
        """[v_1; ...; v_A; input], or [v_1 + ... + v_A; input] in the child-sum form: (nodes, A, ..., W) -> (nodes, ..., in).

        Of children's h and with external input it is eq. 1 of Arabshahi 2019.
        """
        joined = vectors.movedim(1, -2).flatten(-2) if self.form == "nary" else vectors.sum(1)
        return joined if inputs is None else torch.cat([joined, inputs], dim=-1)

    def add_map(self, name: str, own: int, *, external: bool = True, bias: bool = True) -> None:
        """Linear maps of children's h-like vectors to `own` vectors per node and one per child; see `map`.

        Every one sees all children in the n-ary form; in the child-sum form a child's own sees that child alone.
        """
        rows, columns = self.joined(self.hidden, external), own * self.hidden
        if self.form == "nary":
            self.add_product(name, rows, (columns, self.hidden), bias=bias)
            return
        self.add_product(f"{name}_child", rows, (self.hidden, 0), bias=bias)
        if own:
            self.add_product(name, rows, (columns, 0), bias=bias)

    def map(self, ops: Ops, name: str, vectors: Tensor, inputs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Vectors per node (nodes, own, H) and per child (nodes, A, H) of children's vectors (nodes, A, H); see `add_map`."""
        if self.form == "nary":
            found = ops.linear(name, self.join(vectors, inputs)).unflatten(1, (-1, self.hidden))
            split = cast(OperatorLinear, self.products[name]).outputs[0] // self.hidden
            return found[:, :split], found[:, split:]
        every = [vectors] if inputs is None else [vectors, inputs.unsqueeze(1).expand(-1, vectors.shape[1], -1)]
        per_child = ops.linear(f"{name}_child", torch.cat(every, dim=-1))
        if name not in self.products:
            return per_child[:, :0], per_child
        return ops.linear(name, self.join(vectors, inputs)).unflatten(1, (-1, self.hidden)), per_child

    def add_constants(self, name: str, own: Sequence[float], child: float | None = None) -> None:
        """Learned vectors per operator, `own` per node and perhaps one per child, with their values at the start."""
        values = [value for value in own for _ in range(self.hidden)]
        per_child = self.hidden if child is not None else 0
        width = (len(values), per_child) if self.form == "nary" else (len(values) + per_child, 0)
        self.add_product(name, (0, 0), width, draw=Constants(tuple(values), child or 0.0))

    def constants(self, ops: Ops, name: str, like: Tensor) -> Tensor:
        """The vectors of `add_constants` for nodes (nodes, ...), (nodes, own [+ A or 1], H)."""
        return ops.linear(name, like.flatten(1)[:, :0]).unflatten(1, (-1, self.hidden))

    def leaf(self, token: Tensor, number: Tensor) -> State:
        """States of leaves: token (N,) rows of the table, or -1 and a value in number (N,). Every field but h is empty."""
        h = self.leaves(token, number)
        empty = {name: h.new_full((len(h), *shape), self.empty.get(name, 0.0)) for name, shape in self.fields.items()}
        return {**empty, "h": h}

    @abc.abstractmethod
    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        """One step for a frontier of nodes of one arity A. It may be taken again, with the same arguments and parameters.

        children: field -> (nodes, A, *shape). inputs: (nodes, input_size) or None. noise: field -> (nodes, *shape) factors
        for dropout, empty outside training. Returns the state, field -> (nodes, *shape), and the signals.
        """

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values from a generator."""
        self.leaves.reset_parameters(generator)
        for product in self.products.values():
            cast(OperatorLinear, product).reset_parameters(generator)

    def extra_repr(self) -> str:
        shapes = ", ".join(f"{name}={tuple(shape)}" for name, shape in self.fields.items())
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items() if name != "form")
        common = f"dropout={self.dropout}, share={self.share!r}, form={self.form!r}"
        return f"{len(self.operators)} operators, {shapes}, {common}{settings}"


@dataclass(frozen=True)
class CellSpec:
    """What a model name stands for. cell: the class. settings: its keyword arguments beyond size, dropout and sharing.
    paper, equations: the source. adds: one phrase on what it adds to what stands before it."""

    cell: type[Cell]
    paper: str
    equations: str
    adds: str
    settings: Mapping[str, Any] = field(default_factory=dict)
