"""A linear map with weights per operator: the one place where a cell depends on the operator."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells.initializers import Draw, draw_linear
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression.operators import Operator

SHARES = ("operator", "all")


class OperatorLinear(nn.Module):
    """y = W_op x + b_op, one weight and one bias per operator, called `weight_<operator>` and `bias_<operator>`.

    inputs, outputs: (a, b) for a width of a + b * arity; without inputs there is a bias alone. share: `operator`, or `all` for
    one set, called `weight_all`, and where widths depend on the arity one per arity, `weight_arity<n>`. draw: fills weight and
    bias. A parameter that no node used has gradient None.
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
        self.keys = {operator.name: operator.name for operator in operators}
        for operator in operators:
            if operator.arity is None and (inputs[1] or outputs[1]):
                raise ConfigurationError(
                    f"{operator.name!r} takes any number of children, but a weight of this cell depends on the number. "
                    f"Use the form child_sum or give the operator a fixed arity."
                )
            arity = operator.arity or 1
            if share == "all":
                self.keys[operator.name] = f"arity{arity}" if inputs[1] or outputs[1] else "all"
            self._create(self.keys[operator.name], inputs[0] + inputs[1] * arity, outputs[0] + outputs[1] * arity)

    def _create(self, key: str, width_in: int, width_out: int) -> None:
        if f"weight_{key}" not in self._parameters:
            self.register_parameter(f"weight_{key}", nn.Parameter(torch.empty(width_out, width_in)) if width_in else None)
            self.register_parameter(f"bias_{key}", nn.Parameter(torch.empty(width_out)) if self.bias else None)

    def forward(self, operator: str, x: Tensor) -> Tensor:
        """The map of one operator, (..., in) -> (..., out)."""
        weight, bias = self.pair(operator)
        if weight is None:
            assert bias is not None
            return bias.expand(*x.shape[:-1], -1)
        return functional.linear(x, weight, bias)

    def pair(self, operator: str) -> tuple[Tensor | None, Tensor | None]:
        """Weight (out, in) and bias (out,) of an operator, as far as they exist."""
        key = self.keys[operator]
        return self._parameters[f"weight_{key}"], self._parameters[f"bias_{key}"]

    def tensors(self) -> list[Tensor]:
        """All weights and biases; `parameters` takes ten times as long."""
        return [own for own in self._parameters.values() if own is not None]

    def width(self, arity: int) -> int:
        """Of what comes out, for an operator of this arity."""
        return self.outputs[0] + self.outputs[1] * arity

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the initial values."""
        for key in dict.fromkeys(self.keys.values()):
            self.draw(self._parameters[f"weight_{key}"], self._parameters[f"bias_{key}"], generator)

    def extra_repr(self) -> str:
        return f"{len(set(self.keys.values()))} weights, in={_width(self.inputs)}, out={_width(self.outputs)}"


def _width(terms: tuple[int, int]) -> str:
    return f"{terms[0]} + {terms[1]} * arity" if terms[1] else str(terms[0])
