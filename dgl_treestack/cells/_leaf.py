"""Leaves: a table for symbols, a two-layer network for numbers."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells.initializers import draw_linear


class LeafEncoder(nn.Module):
    """The state h of a leaf (Arabshahi 2019, section 3.2).

    symbol    h = row of the table
    number v  h = sigma(W2 sigma(W1 v + b1) + b2)      sigma the logistic function, or ReLU
    """

    def __init__(self, tokens: int, hidden: int, activation: Callable[[Tensor], Tensor] = torch.sigmoid):
        super().__init__()
        self.activation = activation
        self.table = nn.Parameter(torch.empty(tokens, hidden))
        self.number1 = nn.Linear(1, hidden)
        self.number2 = nn.Linear(hidden, hidden)

    def forward(self, token: Int[Tensor, " N"], number: Float[Tensor, " N"]) -> Float[Tensor, "N H"]:
        """token: row of the table, or -1 where `number` is to be encoded."""
        encoded = torch.nonzero(token < 0).squeeze(1)
        if len(encoded) == 0:  # so that the encoder's gradient stays None until a number is seen
            return functional.embedding(token, self.table)
        h = functional.embedding(token.clamp(min=0), self.table)
        values = number[encoded].to(h.dtype).unsqueeze(1)
        return h.index_copy(0, encoded, self.activation(self.number2(self.activation(self.number1(values)))))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Table N(0, 1), layers uniform within 1 / sqrt(inputs): the framework's defaults, as in the authors' code."""
        nn.init.normal_(self.table, generator=generator)
        for layer in (self.number1, self.number2):
            draw_linear(layer.weight, layer.bias, generator)

    def extra_repr(self) -> str:
        return f"{len(self.table)} tokens"
