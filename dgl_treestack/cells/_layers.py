"""Layers of cells: a linear map with weights per operator, the only part that depends on operators, and states of leaves."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import Operator
from dgl_treestack.plain_data import one_of

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}
SHARES = ("operator", "all")
Map = tuple[Tensor | None, Tensor | None]  # weight (out, in) and bias (out,)
# Fills a weight (out, in) and a bias (out,), either of which may be None, with initial values.
Draw = Callable[[Tensor | None, Tensor | None, torch.Generator], None]


def draw_linear(weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
    """Draw from U(-1 / sqrt(in), 1 / sqrt(in)), as torch and the authors' code do. A bias without a weight is zero."""
    bound = 0.0 if weight is None else weight.shape[1] ** -0.5
    for tensor in (weight, bias):
        if tensor is not None:
            nn.init.uniform_(tensor, -bound, bound, generator=generator)


def draw_constants(
    weight: Tensor | None, bias: Tensor | None, generator: torch.Generator, *, first: Sequence[float], rest: float
) -> None:
    """Set the first entries of a bias to `first` and all others to `rest`; there is no weight."""
    if bias is not None:
        bias.fill_(rest)
        bias[: len(first)] = torch.tensor(first)


def apply_map(weight_and_bias: Map, x: Tensor) -> Tensor:
    """Apply a map, (..., in) -> (..., out)."""
    weight, bias = weight_and_bias
    if weight is None:
        assert bias is not None
        return bias.expand(*x.shape[:-1], -1)
    return functional.linear(x, weight, bias)


class OperatorLinear(nn.Module):
    """y = W_op x + b_op, with one weight and one bias per operator.

    operators: those with parameters. inputs, outputs: widths, as (a, b) for a + b * arity of the operator; with inputs (0, 0)
    the map is a bias alone. bias: whether there is a bias. share: `operator`, a set of parameters per operator, or `all`, one
    set for all of them, or one per arity if a width depends on the arity. draw: fills a weight and a bias with initial values.

    The weights of all operators are one parameter `weight` (K, out, in), their biases one parameter `bias` (K, out); where a
    width depends on the arity there is one of each per arity: `weight1`, `bias1`, `weight2` and so on. `state_dict` has their
    rows, `weight_<key>` and `bias_<key>`, so that files do not depend on the order of operators; the key is the operator's name
    or, with share="all", `all` or `arity<n>`. `used` has the keys of the rows that had a gradient since it was cleared.
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
        self.inputs, self.outputs, self.draw, self.share = inputs, outputs, draw, one_of(SHARES, share, "share")
        self.keys: dict[str, str] = {}  # by operator
        self.places: dict[str, tuple[str, int]] = {}  # by operator: suffix of a stack, row in it
        self.stacks: dict[str, list[str]] = {}  # suffix of a stack's parameters -> the keys of its rows
        self.used = set[str]()
        # Stacked: with the rows as an optimizer's parameters, a training step takes 0.76 to 1.03 of the time of separate ones.
        self.by_arity = by_arity = bool(inputs[1] or outputs[1])
        for operator in operators:
            if operator.arity is None and by_arity:
                raise ConfigurationError(
                    f"{operator.name!r} takes any number of children, but a weight of this cell depends on the number. "
                    f"Use the form child_sum or give the operator a fixed arity."
                )
            suffix = str(operator.arity or 1) if by_arity else ""
            shared_key = f"arity{suffix}" if by_arity else "all"
            key = self.keys[operator.name] = shared_key if share == "all" else operator.name
            stack = self.stacks.setdefault(suffix, [])
            if key not in stack:
                stack.append(key)
            self.places[operator.name] = suffix, stack.index(key)
        for suffix, stack in self.stacks.items():
            width_in, width_out = (a + b * int(suffix or 0) for a, b in (inputs, outputs))
            weight, biases = torch.empty(len(stack), width_out, width_in), torch.empty(len(stack), width_out)
            self.register_parameter(f"weight{suffix}", nn.Parameter(weight) if width_in else None)
            self.register_parameter(f"bias{suffix}", nn.Parameter(biases) if bias else None)

    def forward(self, operator: str, x: Tensor) -> Tensor:
        """Apply the map of one operator, (..., in) -> (..., out)."""
        return apply_map(self.maps()[operator], x)

    def maps(self) -> "dict[str, Map]":
        """Return weight (out, in) and bias (out,) by operator, whose gradients mark the rows as used."""
        map_of_key: dict[str, Map] = {}
        for suffix, keys in self.stacks.items():
            parts = [[None] * len(keys) if stack is None else stack.unbind() for stack in self.stack(suffix)]
            for key, weight, bias in zip(keys, *parts, strict=True):
                last = weight if bias is None else bias  # one hook for both: a map that is used has gradients of both
                if last.requires_grad:
                    last.register_hook(partial(self._mark, key))
                map_of_key[key] = weight, bias
        return {operator: map_of_key[key] for operator, key in self.keys.items()}

    def _mark(self, key: str, gradient: Tensor | None) -> None:
        if gradient is not None:
            self.used.add(key)

    def stack(self, suffix: str) -> "Map":
        """Return weight (K, out, in) and bias (K, out) of a stack; None if the map has no weight or no bias."""
        return self._parameters[f"weight{suffix}"], self._parameters[f"bias{suffix}"]

    def rows(self) -> dict[str, Tensor]:
        """Return the rows of all stacks, which share their memory: `weight_<key>`, `bias_<key>` -> row, key after key."""
        rows = {}
        for operator, key in self.keys.items():
            suffix, row = self.places[operator]
            for kind, stack in zip(("weight", "bias"), self.stack(suffix), strict=True):
                if stack is not None:
                    rows[f"{kind}_{key}"] = stack.detach()[row]
        return rows

    def tensors(self) -> list[Tensor]:
        """Return all parameters, ten times faster than `parameters`."""
        return [parameter for parameter in self._parameters.values() if parameter is not None]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the initial values."""
        rows = self.rows()
        for key in dict.fromkeys(self.keys.values()):
            self.draw(rows.get(f"weight_{key}"), rows.get(f"bias_{key}"), generator)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination.update({prefix + name: row for name, row in self.rows().items()})

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, metadata: Any, strict: bool,
        missing: list[str], unexpected: list[str], faults: list[str],
    ) -> None:  # fmt: skip
        rows = {prefix + name: row for name, row in self.rows().items()}
        unexpected += [name for name in state_dict if name.startswith(prefix) and name not in rows]
        missing += [name for name in rows if name not in state_dict]
        for name in rows.keys() & state_dict.keys():
            if rows[name].shape == state_dict[name].shape:
                rows[name].copy_(state_dict[name])
            else:
                faults.append(f"size mismatch for {name}: {state_dict[name].shape} for {rows[name].shape}.")

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
