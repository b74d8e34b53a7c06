"""A Transformer with rotary positions that reads whole sequences, without a mask, and has a vector for every token."""

import torch
from torch import Tensor, nn

from dgl_treestack.cells import State
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import whole
from dgl_treestack.sequence.encoders import draw_layers
from dgl_treestack.sequence.transformer_encoder import RotaryLayer


class RotaryTransformer(nn.Module):
    """Vaswani et al. 2017, an encoder with normalisation first and the rotary positions of `RotaryLayer`:

        x' = x + O attention(rotated Q n(x), rotated K n(x), V n(x))          n: layer normalisation
        y  = x' + F max(0, G n(x'))

    inputs: E, hidden: H; x of the first layer is a linear map of the
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
        layer = RotaryLayer(hidden, heads, wide, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(hidden), enable_nested_tensor=False)

    def unroll(self, x: Tensor) -> tuple[Tensor, State]:
        """Return the vectors (T, B, H) of all tokens of sequences x (T, B, E) of one length; and, as a cell does, a state."""
        h: Tensor = self.layers(self.embed(x.transpose(0, 1)))
        return h.transpose(0, 1), {}

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the map of inputs from N(0, 1), other matrices by Glorot's uniform rule. Biases are 0, scales 1."""
        nn.init.normal_(self.embed.weight, generator=generator)
        draw_layers(self.layers, generator)
