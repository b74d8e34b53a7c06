"""States of leaves: an embedding table for symbols, a two-layer network for numbers."""

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

    tokens: rows of the table. hidden: width H of h. activation: sigma.
    """

    def __init__(self, tokens: int, hidden: int, activation: Callable[[Tensor], Tensor] = torch.sigmoid):
        super().__init__()
        self.activation = activation
        self.table = nn.Parameter(torch.empty(tokens, hidden))
        self.number1 = nn.Linear(1, hidden)
        self.number2 = nn.Linear(hidden, hidden)

    def forward(self, token: Int[Tensor, " N"], number: Float[Tensor, " N"]) -> Float[Tensor, "N H"]:
        """Return h of N leaves. token: row of the table, or -1 for a leaf whose value in `number` is to be encoded."""
        encoded = torch.nonzero(token < 0).squeeze(1)
        if len(encoded) == 0:  # without numbers the gradient of the network stays None
            return functional.embedding(token, self.table)
        h = functional.embedding(token.clamp(min=0), self.table)
        values = number[encoded].to(h.dtype).unsqueeze(1)
        return h.index_copy(0, encoded, self.activation(self.number2(self.activation(self.number1(values)))))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the table from N(0, 1) and the layers from U(-1 / sqrt(in), 1 / sqrt(in)), as torch and the authors' code do."""
        nn.init.normal_(self.table, generator=generator)
        for layer in (self.number1, self.number2):
            draw_linear(layer.weight, layer.bias, generator)

    def extra_repr(self) -> str:
        return f"{len(self.table)} tokens"
