"""The Transformer: a side is read as a sequence in prefix form, all at once."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.encoders._contract import Encoder, EncoderSpec
from dgl_treestack.encoders._positions import sinusoidal
from dgl_treestack.encoders._tokens import Trees, prefix
from dgl_treestack.errors import ConfigurationError

GROUPS, ROWS = 4, 32  # a batch is taken in parts, by length: at least so many, of about so many rows where it is large


class Layers(nn.Module):
    """torch's encoder layers, normalised before attention and before the feed-forward part, and the mean over what is there."""

    def __init__(self, hidden: int, layers: int, heads: int, feed_forward: int, dropout: float):
        super().__init__()
        for name, value in (("layers", layers), ("heads", heads), ("feed_forward", feed_forward)):
            if value < 1:
                raise ConfigurationError(f"{name!r} is {value}; it must be at least 1.")
        if hidden % heads:
            raise ConfigurationError(f"'hidden' is {hidden}, no multiple of {heads} heads.")
        layer = nn.TransformerEncoderLayer(hidden, heads, feed_forward, dropout, batch_first=True, norm_first=True)
        self.stack = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(hidden), enable_nested_tensor=False)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x: (K, T, H), of which the first `lengths` (K,) count. Returns (K, H). Rows of similar lengths go together: else
        more than half of what is computed would be padding."""
        order = lengths.argsort()
        parts = [
            self._mean(x[rows, : int(lengths[rows].max())], lengths[rows])
            for rows in order.chunk(max(GROUPS, len(order) // ROWS))
        ]
        return torch.cat(parts)[order.argsort()]

    def _mean(self, x: Tensor, lengths: Tensor) -> Tensor:
        absent = torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)
        found = self.stack(x, src_key_padding_mask=absent)
        return found.masked_fill(absent.unsqueeze(-1), 0.0).sum(1) / lengths.unsqueeze(1)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Matrices by Glorot's uniform rule, biases 0, scales of normalisation 1."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.constant_(parameter, float("norm" in name and name.endswith("weight")))


class Transformer(Encoder):
    """Vaswani et al. 2017, as an encoder of tokens in prefix form (Arabshahi 2020, section 5, which gives no sizes):

        x_t = sqrt(H) table[token_t] + sinusoidal position of t
        the vector of a side = the mean over t of the layers' output, divided by H^(1/4)

    The last, not in the papers, makes the product of two sides that of scaled attention; without it training begins at a loss
    of 7 and stays at chance for epochs. Dropout acts on x and within the layers.
    """

    def __init__(
        self,
        leaves: int,
        operators: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        layers: int = 2,
        heads: int = 4,
        feed_forward: int = 256,
    ):
        super().__init__(leaves, operators, hidden, dropout=dropout)
        self.layers = Layers(hidden, layers, heads, feed_forward, dropout)

    def encode(self, trees: Trees) -> Tensor:
        tokens, lengths = prefix(trees, self.signs)
        places = sinusoidal(tokens.shape[1], self.hidden).to(self.table)
        return self.read(torch.from_numpy(tokens), torch.from_numpy(lengths), places)

    def read(self, tokens: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """(K, H) for tokens (K, T), their lengths (K,) and the codes of their places (..., T, H)."""
        x = math.sqrt(self.hidden) * functional.embedding(tokens.to(self.table.device), self.table) + places
        mean: Tensor = self.layers(functional.dropout(x, self.dropout, self.training), lengths.to(x.device))
        return mean / self.hidden**0.25

    def reset_parameters(self, generator: torch.Generator) -> None:
        """N(0, 1 / H) for the table: times sqrt(H), tokens are then as large as positions are."""
        nn.init.normal_(self.table, 0.0, self.hidden**-0.5, generator=generator)
        self.layers.reset_parameters(generator)


MODELS = {"transformer": EncoderSpec(Transformer, "Arabshahi 2020", "-", "attention over prefix tokens", hidden=128)}
