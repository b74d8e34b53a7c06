"""Layers of cells: a linear map with weights per operator, the only part that depends on operators, and states of leaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression.operators import Operator

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}
SHARES = ("operator", "all")
# Fills a weight (out, in) and a bias (out,), either of which may be None, with initial values.
Draw = Callable[[Tensor | None, Tensor | None, torch.Generator], None]


def draw_linear(weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
    """Draw from U(-1 / sqrt(in), 1 / sqrt(in)), as torch and the authors' code do. A bias without a weight is zero."""
    bound = 0.0 if weight is None else weight.shape[1] ** -0.5
    for tensor in (weight, bias):
        if tensor is not None:
            nn.init.uniform_(tensor, -bound, bound, generator=generator)


@dataclass(frozen=True)
class Constants:
    """Sets the first entries of a bias to `first` and all others to `rest`; there is no weight."""

    first: tuple[float, ...]
    rest: float = 0.0

    def __call__(self, weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
        assert weight is None and bias is not None
        bias.fill_(self.rest)
        bias[: len(self.first)] = torch.tensor(self.first)


class OperatorLinear(nn.Module):
    """y = W_op x + b_op, with one weight and one bias per operator.

    operators: those with parameters. inputs, outputs: widths, as (a, b) for a + b * arity of the operator; with inputs (0, 0)
    the map is a bias alone. bias: whether there is a bias. share: `operator`, a set of parameters per operator, or `all`, one
    set for all of them, or one per arity if a width depends on the arity. draw: fills a weight and a bias with initial values.

    Parameters are named `weight_<key>` and `bias_<key>`; the key is the operator's name or, with share="all", `all` or
    `arity<n>`. The gradient of a parameter that no node used is None.
    Raises ConfigurationError for an operator of any arity where a width depends on the arity.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        inputs: tuple[int, int],
        outputs: tuple[int, int],
        *,
        bias: bool = True,
        share: str = "operator",
        draw: Draw = draw_linear,
    ):
        super().__init__()
        if share not in SHARES:
            raise ConfigurationError(unknown("way to share weights", share, SHARES))
        self.inputs, self.outputs, self.bias, self.draw, self.share = inputs, outputs, bias, draw, share
        self.keys: dict[str, str] = {}
        by_arity = bool(inputs[1] or outputs[1])
        for operator in operators:
            if operator.arity is None and by_arity:
                raise ConfigurationError(
                    f"{operator.name!r} takes any number of children, but a weight of this cell depends on the number. "
                    f"Use the form child_sum or give the operator a fixed arity."
                )
            arity = operator.arity or 1
            shared_key = f"arity{arity}" if by_arity else "all"
            key = self.keys[operator.name] = shared_key if share == "all" else operator.name
            if f"weight_{key}" in self._parameters:
                continue
            width_in, width_out = inputs[0] + inputs[1] * arity, outputs[0] + outputs[1] * arity
            self.register_parameter(f"weight_{key}", nn.Parameter(torch.empty(width_out, width_in)) if width_in else None)
            self.register_parameter(f"bias_{key}", nn.Parameter(torch.empty(width_out)) if bias else None)

    def forward(self, operator: str, x: Tensor) -> Tensor:
        """Apply the map of one operator, (..., in) -> (..., out)."""
        weight, bias = self.pair(operator)
        if weight is None:
            assert bias is not None
            return bias.expand(*x.shape[:-1], -1)
        return functional.linear(x, weight, bias)

    def pair(self, operator: str) -> tuple[Tensor | None, Tensor | None]:
        """Return weight (out, in) and bias (out,) of an operator; None if the map has no weight or no bias."""
        key = self.keys[operator]
        return self._parameters[f"weight_{key}"], self._parameters[f"bias_{key}"]

    def tensors(self) -> list[Tensor]:
        """Return all weights and biases, ten times faster than `parameters`."""
        return [parameter for parameter in self._parameters.values() if parameter is not None]

    def width(self, arity: int) -> int:
        """Return the output width for an operator of this arity."""
        return self.outputs[0] + self.outputs[1] * arity

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the initial values."""
        for key in dict.fromkeys(self.keys.values()):
            self.draw(self._parameters[f"weight_{key}"], self._parameters[f"bias_{key}"], generator)

    def extra_repr(self) -> str:
        inputs, outputs = (f"{a} + {b} * arity" if b else str(a) for a, b in (self.inputs, self.outputs))
        return f"{len(set(self.keys.values()))} weights, in={inputs}, out={outputs}"


class LeafEncoder(nn.Module):
    """The state h of a leaf (Arabshahi 2019, section 3.2).

    symbol    h = row of the table, or P row           P the weight (H, vector_size) of `projection`
    number v  h = sigma(W2 sigma(W1 v + b1) + b2)      sigma the logistic function, or ReLU

    tokens: rows of the table. hidden: width H of h. activation: sigma. vector_size: width of a row; 0 is H, without P.
    """

    def __init__(self, tokens: int, hidden: int, activation: Callable[[Tensor], Tensor] = torch.sigmoid, vector_size: int = 0):
        super().__init__()
        self.activation = activation
        self.table = nn.Parameter(torch.empty(tokens, vector_size or hidden))
        self.number1 = nn.Linear(1, hidden)
        self.number2 = nn.Linear(hidden, hidden)
        self.projection = nn.Linear(vector_size, hidden, bias=False) if vector_size else nn.Identity()

    def forward(self, token: Int[Tensor, " N"], number: Float[Tensor, " N"], encoded: Tensor | None = None) -> Tensor:
        """Return h (N, H) of N leaves. token: row of the table, or -1 where `number` is read. encoded: indices of these."""
        encoded = torch.nonzero(token < 0).squeeze(1) if encoded is None else encoded  # the search waits for a GPU
        h = self.projection(functional.embedding(token.clamp(min=0), self.table))
        if len(encoded) == 0:  # without numbers the gradient of the network stays None
            return h
        inner = self.activation(self.number1(number[encoded].to(h.dtype).unsqueeze(1)))
        return h.index_copy(0, encoded, self.activation(self.number2(inner)))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the table from N(0, 1) and the layers from U(-1 / sqrt(in), 1 / sqrt(in)), as torch and the authors' code do."""
        nn.init.normal_(self.table, generator=generator)
        for layer in (self.number1, self.number2, self.projection):
            if isinstance(layer, nn.Linear):
                draw_linear(layer.weight, layer.bias, generator)

    def extra_repr(self) -> str:
        return f"{len(self.table)} tokens"
