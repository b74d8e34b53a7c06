"""The contract of a cell: one step of the recursion, children's states in, parent's state out."""

import abc
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from dgl_treestack.cells._layers import Draw, LeafEncoder, OperatorLinear, draw_constants, draw_linear
from dgl_treestack.errors import unknown
from dgl_treestack.expression.operators import Operator
from dgl_treestack.plain_data import number, one_of, whole

State = dict[str, Tensor]
Signals = dict[str, Tensor]
Noise = Mapping[str, Tensor]
Shape = tuple[int, ...]
FORMS = ("nary", "child_sum")
PER_CHILD = -1  # in the shape of a signal: a dimension with one entry per child


@runtime_checkable  # the suite checks arguments with beartype, which needs it
class Ops(Protocol):
    """The linear maps of a frontier's operators, as a cell applies them."""

    def linear(self, product: str, x: Tensor) -> Tensor:
        """Apply a product to x (nodes, ..., in), each node with weight and bias of its operator: (nodes, ..., out)."""
        ...


def dropped(x: Tensor, noise: Noise, name: str) -> Tensor:
    """Apply the dropout factors of a noise field to x; return x itself if there are none, as in evaluation mode."""
    return x * noise[name] if name in noise else x


class Products(nn.ModuleDict):
    """The products of a cell by name; an unknown name is an error that lists the known ones."""

    def __getitem__(self, name: str) -> nn.Module:
        if name not in self:
            raise KeyError(unknown("product", name, self))
        return super().__getitem__(name)


class Cell(nn.Module, abc.ABC):
    """Base of all recursive cells. A cell never sees a graph, a loss or a file; `propagate` runs any cell over a graph.

        @register_cell("my_tree_rnn")
        class MyTreeRNN(Cell):
            def __init__(self, *sizes, **common):
                super().__init__(*sizes, **common)
                self.signals = {"gate": (self.hidden,)}                                # what `node` can report
                self.noise = {"h": (self.hidden,)}                                     # what dropout multiplies
                self.add_product("gate", self.joined(self.hidden), (self.hidden, 0))   # V, c of every operator
                self.add_product("state", self.joined(self.hidden), (self.hidden, 0))  # W, b of every operator

            def node(self, ops, children, inputs, noise):
                x = self.join(children["h"], inputs)                                   # x = [h_1; ...; h_A; input]
                gate = torch.sigmoid(ops.linear("gate", x))                            # g = sigma(V x + c)
                h = gate * torch.tanh(ops.linear("state", x))                          # h = g * tanh(W x + b)
                return {"h": dropped(h, noise, "h")}, {"gate": gate}

    operators: those the cell has parameters for. tokens: rows of the embedding table. hidden: width H of a node's state h.
    dropout: probability that an entry of a noise field is dropped in training. input_size: width of the external input of
    inner nodes, 0 for none. share: `operator`, separate weights per operator, or `all`, the same weights for all operators (of
    one arity, where widths depend on it). form: `nary`, children's vectors are concatenated (Tai et al. 2015, section 3.2), or
    `child_sum`, they are summed: their order has no effect, and an operator may have any number of children (section 3.1).

    A subclass passes these on to `super().__init__`, takes its own settings as keyword arguments, and then declares

    - `fields`, the state of a node: name -> shape, without the dimension of nodes. `h` (H,) always exists; tasks read it.
    - `signals`, what `node` can report besides the state, such as gates: name -> shape, `PER_CHILD` for one entry per child.
    - `noise`, the tensors that dropout multiplies: name -> shape.
    - `empty`, the content of a leaf's fields other than h: name -> number, 0 for fields that are not named.
    - its weights, by `add_product`, `add_map` and `add_constants`. Parameters and modules of torch that all operators share are
      possible too, but not with native code.

    It defines `node`, the step. With `join`, `map` and `constants` one `node` serves both forms.
    Parameters are uninitialised until `reset_parameters` or `load_state_dict`. Raises ConfigurationError for a bad setting.
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
        one_of(FORMS, form, "form")
        number(dropout, "dropout", 0.0, 1.0)
        whole(input_size, "input_size", 0)
        self.operators, self.settings, self.tokens = tuple(operators), dict[str, object](), tokens
        self.hidden, self.dropout, self.input_size, self.share, self.form = hidden, dropout, input_size, share, form
        self.leaves = LeafEncoder(tokens, hidden)
        self.products = cast(MutableMapping[str, OperatorLinear], Products())
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
        """Add a linear map with weights per operator, which `ops.linear(name, x)` applies.

        inputs, outputs: widths, as (a, b) for a + b * arity. `self.joined(W)` is the width of what `join` returns; inputs
        (0, 0) make the map a bias alone. share: overrides the cell's. draw: fills weight and bias with initial values.
        """
        self.products[name] = OperatorLinear(self.operators, inputs, outputs, bias=bias, share=share or self.share, draw=draw)

    def joined(self, size: int, external: bool = True) -> tuple[int, int]:
        """Return the width, as `add_product` takes it, of the result of `join` for children's vectors of width `size`.

        external: whether `join` also gets the external input.
        """
        extra = self.input_size if external else 0
        return (extra, size) if self.form == "nary" else (extra + size, 0)

    def join(self, vectors: Tensor, inputs: Tensor | None = None) -> Tensor:
        """Join children's vectors (nodes, A, ..., W) and external input to one vector per node (nodes, ..., in).

        [v_1; ...; v_A; input], which is eq. 1 of Arabshahi 2019 where v is h; [v_1 + ... + v_A; input] in the child-sum form.
        """
        joined = vectors.movedim(1, -2).flatten(-2) if self.form == "nary" else vectors.sum(1)
        return joined if inputs is None else torch.cat([joined, inputs], dim=-1)

    def add_map(self, name: str, per_node: int, *, external: bool = True, bias: bool = True) -> None:
        """Add linear maps from children's vectors (H,) to `per_node` vectors (H,) of the node and one per child.

        In the n-ary form every result depends on all children; in the child-sum form that of a child depends on it alone.
        external: whether `map` also gets the external input.
        """
        inputs, columns = self.joined(self.hidden, external), per_node * self.hidden
        if self.form == "nary":
            self.add_product(name, inputs, (columns, self.hidden), bias=bias)
            return
        self.add_product(f"{name}_child", inputs, (self.hidden, 0), bias=bias)
        if per_node:
            self.add_product(name, inputs, (columns, 0), bias=bias)

    def map(self, ops: Ops, name: str, vectors: Tensor, inputs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Apply the maps of `add_map` to children's vectors (nodes, A, H): vectors (nodes, per_node, H) and (nodes, A, H)."""
        if self.form == "nary":
            results = ops.linear(name, self.join(vectors, inputs)).unflatten(1, (-1, self.hidden))
            per_node = self.products[name].outputs[0] // self.hidden
            if not per_node:
                return results[:, :0], results
            of_node, of_children = results.split([per_node, results.shape[1] - per_node], 1)  # backward is one operation
            return of_node, of_children
        parts = [vectors] if inputs is None else [vectors, inputs.unsqueeze(1).expand(-1, vectors.shape[1], -1)]
        per_child = ops.linear(f"{name}_child", torch.cat(parts, dim=-1))
        if name not in self.products:
            return per_child[:, :0], per_child
        return ops.linear(name, self.join(vectors, inputs)).unflatten(1, (-1, self.hidden)), per_child

    def add_constants(self, name: str, per_node: Sequence[float], per_child: float | None = None) -> None:
        """Add learned vectors (H,) per operator, which `constants` returns.

        per_node: the initial value of each. per_child: the initial value of one more vector per child in the n-ary form, of one
        more vector in the child-sum form; None for neither.
        """
        values = [value for value in per_node for _ in range(self.hidden)]
        child_width = self.hidden if per_child is not None else 0
        width = (len(values), child_width) if self.form == "nary" else (len(values) + child_width, 0)
        self.add_product(name, (0, 0), width, draw=partial(draw_constants, first=values, rest=per_child or 0.0))

    def constants(self, ops: Ops, name: str, like: Tensor) -> Tensor:
        """Return the vectors of `add_constants` for the nodes of a tensor (nodes, ...): (nodes, per_node [+ A or 1], H)."""
        return ops.linear(name, like.flatten(1)[:, :0]).unflatten(1, (-1, self.hidden))

    def leaf(self, token: Tensor, number: Tensor, encoded: Tensor | None = None) -> State:
        """Return the states of N leaves: h from table or number encoder, all other fields empty.

        token: (N,) rows of the table, -1 for a leaf whose value is in number (N,). encoded: (M,) indices of these leaves, see
        `LeafEncoder`.
        """
        h = self.leaves(token, number, encoded)
        empty = {name: h.new_full((len(h), *shape), self.empty.get(name, 0.0)) for name, shape in self.fields.items()}
        return {**empty, "h": h}

    @abc.abstractmethod
    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        """Compute one step for a frontier: nodes of the same arity A, whose operators may differ.

        children: field -> (nodes, A, *shape). inputs: external input (nodes, input_size), or None. noise: noise field ->
        factors (nodes, *shape), empty outside training; apply them with `dropped`.
        Returns the state, field -> (nodes, *shape), and the signals, name -> (nodes, *shape).

        It is ordinary torch code under three rules, with which every engine can trace, compile and recompute it:

        - What depends on the operator goes through `ops.linear`, `map` or `constants`. Everything else is pointwise along
          nodes: no node reads another one.
        - The result depends only on arguments and parameters, and the arguments are not changed in place.
        - The operations do not depend on the values of tensors: no `if` and no loop over them.
        """

    def checked(self, result: tuple[State, Signals], count: int) -> tuple[State, Signals]:
        """Return what `node` returned for `count` nodes. Raises RuntimeError unless it is what fields and signals promise."""
        state, signals = result if isinstance(result, tuple) and len(result) == 2 else (None, {})
        fault = ""
        if state is None:
            fault = f"a {type(result).__name__}, not two dictionaries: state, and signals ({{}} for none)"
        elif state.keys() != self.fields.keys():
            fault = f"the fields {[*state]}; it has declared {[*self.fields]}"
        elif not signals.keys() <= self.signals.keys():
            fault = f"the signals {[*signals]}; it has declared {[*self.signals]}"
        else:
            for name, shape in self.fields.items():
                if state[name].shape != (count, *shape):
                    promised = f"{(count, *shape)} = (nodes, {', '.join(map(str, shape))})"
                    fault = f"{name!r} of shape {tuple(state[name].shape)}; its fields promise {promised}"
            for name, signal in signals.items():
                shape, actual = self.signals[name], signal.shape[1:]
                if len(shape) != len(actual) or any(a not in (PER_CHILD, b) for a, b in zip(shape, actual, strict=True)):
                    fault = f"the signal {name!r} of shape {tuple(signal.shape)}; declared is {shape}"
        if fault:
            raise RuntimeError(f"{type(self).__name__} returned {fault}.")
        return state, signals

    def other_modules(self) -> list[nn.Module]:
        """Return the modules of a subclass, besides the leaf encoder and the products."""
        return [module for name, module in self._modules.items() if name not in ("leaves", "products") and module is not None]

    def other_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of a subclass, besides those of the leaf encoder and the products, each once."""
        direct = [parameter for parameter in self._parameters.values() if parameter is not None]
        return list(dict.fromkeys([*direct, *(p for module in self.other_modules() for p in module.parameters())]))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values from a generator.

        Modules of a subclass, such as `torch.nn.Linear`, draw theirs by their own `reset_parameters`. A `torch.nn.Parameter` of
        a subclass keeps its value; a subclass that draws it extends this method.
        """
        self.leaves.reset_parameters(generator)
        for product in self.products.values():
            product.reset_parameters(generator)
        if modules := self.other_modules():
            with torch.random.fork_rng(devices=[]):  # modules of torch draw from its global generator
                torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
                for part in (part for module in modules for part in module.modules()):
                    if callable(reset := getattr(part, "reset_parameters", None)):
                        reset()

    def extra_repr(self) -> str:
        shapes = ", ".join(f"{name}={tuple(shape)}" for name, shape in self.fields.items())
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items() if name != "form")
        common = f"dropout={self.dropout}, share={self.share!r}, form={self.form!r}"
        return f"{len(self.operators)} operators, {shapes}, {common}{settings}"


@dataclass(frozen=True)
class CellSpec:
    """A row of the table of models: the definition of a model name.

    cell: the class of the cell, or of the encoder. paper, equations: the source. adds: one phrase on what it adds to the
    previous model. settings: keyword arguments of the class, besides sizes, dropout, input_size and share. hidden: width in
    the table of models.
    """

    cell: type[Any]
    paper: str = "-"
    equations: str = "-"
    adds: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    hidden: int = 50
