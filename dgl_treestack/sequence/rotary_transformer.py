"""A Transformer with rotary positions that reads whole sequences, without a mask, and has a vector for every token."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import State
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import whole

BASE = 10_000.0  # the slowest of the rotations has about this wavelength, divided by 2 pi


class RotaryTransformer(nn.Module):
    """Vaswani et al. 2017, an encoder with normalisation first, and Su et al. 2021, rotary positions (eq. 34):

        x' = x + O attention(rotated Q n(x), rotated K n(x), V n(x))          n: layer normalisation
        y  = x' + F max(0, G n(x'))
        rotated(q)_t = every pair (q_i, q_{i + d/2}) of a head of width d turned by the angle t BASE^(-2 i / d)

    so that attention depends on distances, not on positions. inputs: E, hidden: H; x of the first layer is a linear map of the
    input. feed_forward: the width of G, by default 4 H. Delétang et al. 2023 have 5 layers of width 64 with 8 heads, like the
    defaults here, normalisation last, and dropout 0.1, which is not here.
    """

    def __init__(self, inputs: int, hidden: int = 64, *, layers: int = 5, heads: int = 8, feed_forward: int = 0):
        super().__init__()
        for name, value in (("hidden", hidden), ("layers", layers), ("heads", heads)):
            whole(value, name, 1)
        if hidden % (2 * heads):
            raise ConfigurationError(f"'hidden' is {hidden}, no multiple of 2 times {heads} heads.")
        self.inputs, self.hidden, wide = inputs, hidden, feed_forward or 4 * hidden
        self.embed = nn.Linear(inputs, hidden, bias=False)
        self.layers = nn.ModuleList(_Layer(hidden, heads, wide) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def unroll(self, x: Tensor) -> tuple[Tensor, State]:
        """Return the vectors (T, B, H) of all tokens of sequences x (T, B, E) of one length; and, as a cell does, a state."""
        h = self.embed(x.transpose(0, 1))
        for layer in self.layers:
            h = layer(h)
        return self.norm(h).transpose(0, 1), {}

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the map of inputs from N(0, 1), other matrices by Glorot's uniform rule. Biases are 0, scales 1."""
        for name, parameter in self.named_parameters():
            if name == "embed.weight":
                nn.init.normal_(parameter, generator=generator)
            elif parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.constant_(parameter, float("norm" in name and name.endswith("weight")))


class _Layer(nn.Module):
    def __init__(self, hidden: int, heads: int, wide: int):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.queries, self.keys, self.values, self.output = (nn.Linear(hidden, hidden) for _ in range(4))
        self.widen, self.narrow = nn.Linear(hidden, wide), nn.Linear(wide, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next vectors (B, T, H)."""
        n = self.attention_norm(x)
        split = (map_(n).unflatten(-1, (self.heads, -1)).transpose(1, 2) for map_ in (self.queries, self.keys, self.values))
        queries, keys, values = split
        attended = functional.scaled_dot_product_attention(rotated(queries), rotated(keys), values)
        x = x + self.output(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(torch.relu(self.widen(self.norm(x))))


def rotated(x: Tensor) -> Tensor:
    """Return vectors (..., T, d), each turned by its position."""
    length, width = x.shape[-2:]
    rates = BASE ** (-torch.arange(0, width, 2, dtype=x.dtype, device=x.device) / width)
    angles = torch.arange(length, dtype=x.dtype, device=x.device).unsqueeze(1) * rates
    first, second = x.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)
