"""The Transformer, which reads a side token by token in prefix form, and the Tree Transformer, which reads it node by node."""

import abc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import CellSpec
from dgl_treestack.errors import ConfigurationError, GraphError
from dgl_treestack.plain_data import whole
from dgl_treestack.sequence._tokens import Trees, prefix, preorder
from dgl_treestack.sequence.encoders import DEPTH, Encoder, draw_layers

GROUPS, ROWS = 4, 32  # a batch is split by length into groups of about ROWS sequences, at least GROUPS of them
FIRST, LAST = 0.5, 0.95  # initial decays; a decay near 0 would keep one step only

Loops = int | Tensor  # of all sequences, or of each (K,), on the CPU


class RotaryLayer(nn.TransformerEncoderLayer):
    """torch's layer with rotary positions (Su et al. 2021, eq. 14-16 and 34) for queries q_t and keys k_t of a head of width d:

        (q[2i], q[2i+1]) -> (q[2i] cos a - q[2i+1] sin a, q[2i] sin a + q[2i+1] cos a),  a = t / 10000^(2 i / d)

    so that a product of q_s and k_t depends on s - t.
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the layer's output (K, T, H). src_key_padding_mask: (K, T), not 0 beyond the end of a sequence."""
        attention, x = self.self_attn, self.norm1(src)
        projected = functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
        q, k, v = projected.unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)  # (K, heads, T, d)
        sine, cosine = sinusoidal(q.shape[-2], q.shape[-1], q.device).to(q).unflatten(-1, (-1, 2)).unbind(-1)
        shown = None if src_key_padding_mask is None else (src_key_padding_mask == 0)[:, None, None]
        dropout = attention.dropout if self.training else 0.0
        rotated = rotate(q, sine, cosine), rotate(k, sine, cosine)
        heads = functional.scaled_dot_product_attention(*rotated, v, attn_mask=shown, dropout_p=dropout)
        src = src + self.dropout1(attention.out_proj(heads.transpose(1, 2).flatten(2)))
        inner = self.dropout(functional.relu(self.linear1(self.norm2(src))))
        output: Tensor = src + self.dropout2(self.linear2(inner))
        return output


def rotate(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Return x (..., T, d) with every pair of neighbours rotated by the angles whose sines and cosines are (T, d / 2)."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)


class Layers(nn.Module, abc.ABC):
    """Layers of attention, applied in loops to groups of sequences of similar length. A subclass defines `vectors`."""

    def __init__(self, hidden: int, **sizes: int):
        super().__init__()
        for name, value in sizes.items():
            whole(value, name, 1)
        if hidden % sizes["heads"]:
            raise ConfigurationError(f"'hidden' is {hidden}, no multiple of {sizes['heads']} heads.")

    def forward(self, x: Tensor, lengths: Tensor, loops: Loops, *, fixed: bool = False) -> Tensor:
        """Return the vectors (K, H) of the first `lengths` (K,) tokens of x (K, T, H). loops: how often layers are applied.

        Sequences of similar lengths, which are on the CPU, form a group; in one group, with `fixed`, more than half of the work
        would be padding.
        """
        if fixed:
            return self.vectors(x, lengths, loops)
        # A third of the time went into padding: 39 ms a batch in place of 50.
        order = lengths.argsort()
        vectors = []
        for rows in order.chunk(max(GROUPS, len(order) // ROWS)):
            longest, of_rows = int(lengths[rows].max()), loops[rows] if isinstance(loops, Tensor) else loops
            length, rows = (values.to(x.device, non_blocking=True) for values in (lengths[rows], rows))
            vectors.append(self.vectors(x[rows, :longest], length, of_rows))
        return torch.cat(vectors)[order.argsort().to(x.device, non_blocking=True)]

    @abc.abstractmethod
    def vectors(self, x: Tensor, lengths: Tensor, loops: Loops) -> Tensor:
        """Return the vectors (K, H) of the first `lengths` (K,) tokens of x (K, T, H)."""


def repeat(layer: Callable[[Tensor], Tensor], x: Tensor, loops: Loops) -> Tensor:
    """Return x (K, ...) after a layer is applied `loops` times to every row."""
    if not isinstance(loops, Tensor):
        for _ in range(loops):
            x = layer(x)
        return x
    for i in range(int(loops.max())):
        x = torch.where((loops > i).to(x.device)[:, None, None], layer(x), x)
    return x


class StandardLayers(Layers):
    """torch's encoder layers, with normalisation before attention and before the feed-forward part, and a mean over tokens.

    rotary: whether the layers are of `RotaryLayer`.
    """

    def __init__(self, hidden: int, layers: int, heads: int, feed_forward: int, dropout: float, *, rotary: bool = False):
        super().__init__(hidden, layers=layers, heads=heads, feed_forward=feed_forward)
        if rotary and hidden // heads % 2:
            raise ConfigurationError(f"'hidden' is {hidden}; with rotary positions each of {heads} heads needs an even width.")
        # torch's fast path for inference, left on, is slower than its own attention: 2.4 s in place of 2.0 for 2,048 sides.
        kind = RotaryLayer if rotary else nn.TransformerEncoderLayer
        layer = kind(hidden, heads, feed_forward, dropout, batch_first=True, norm_first=True)
        self.stack = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(hidden), enable_nested_tensor=False)

    def vectors(self, x: Tensor, lengths: Tensor, loops: Loops) -> Tensor:
        padding = torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)

        def once(x: Tensor) -> Tensor:
            for layer in self.stack.layers:
                x = layer(x, src_key_padding_mask=padding)
            return x

        output = self.stack(repeat(once, x, loops - 1), src_key_padding_mask=padding)
        return output.masked_fill(padding.unsqueeze(-1), 0.0).sum(1) / lengths.unsqueeze(1)


class AttentionEncoder(Encoder):
    """Base of encoders of tokens in prefix form by layers of attention: x_t = sqrt(H) table[token_t] + position of t.

    loops: how often the layers are applied with the same weights, or "depth": as often as the tree is deep, at least once.
    Dropout acts on x and within the layers. A subclass sets `layers`.
    """

    layers: Layers

    def __init__(self, leaves: int, operators: int, hidden: int, *, dropout: float = 0.0, loops: int | str = 1):
        super().__init__(leaves, operators, hidden, dropout=dropout)
        self.loops = loops if loops == DEPTH else whole(loops, "loops", 1)

    def written(self, trees: Trees) -> tuple[np.ndarray, ...]:
        return prefix(trees, self.signs)

    def read(self, tokens: Tensor, lengths: Tensor, *paths: Tensor, fixed: bool = False) -> Tensor:
        if fixed and self.loops == DEPTH:
            raise RuntimeError("How often the layers are applied depends on the trees.")
        x = math.sqrt(self.hidden) * functional.embedding(tokens.to(self.table.device, non_blocking=True), self.table)
        x = x + self.positions(tokens.shape[1], *paths)
        loops = self.depths(tokens, *paths).clamp(min=1) if self.loops == DEPTH else self.loops
        vectors: Tensor = self.layers(functional.dropout(x, self.dropout, self.training), lengths, loops, fixed=fixed)
        # Rejected: tanh of a linear layer, 56.7 % after 16 epochs of 600 equations in place of 60.0 to 76.7.
        return vectors / self.hidden**0.25

    def positions(self, length: int, *paths: Tensor) -> Tensor:
        """Return the codes (..., T, H) of the positions of T tokens, by default zeros."""
        return self.table.new_zeros(length, self.hidden)

    def depths(self, tokens: Tensor, *paths: Tensor) -> Tensor:
        """Return how deep the parentheses of every sequence are nested, which is the depth of its tree (K,)."""
        parentheses = (tokens == self.signs).long() - (tokens == self.signs + 1).long()
        return parentheses.cumsum(1).amax(1)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the table from N(0, 1 / H), so that tokens times sqrt(H) are as large as positions, and the layers' matrices by
        Glorot's uniform rule. Biases are 0, scales of normalisation 1."""
        # Drawn from N(0, 1), tokens drowned the positions: x and y exchanged changed a vector by 0.1 %.
        nn.init.normal_(self.table, 0.0, self.hidden**-0.5, generator=generator)
        draw_layers(self.layers, generator)


class Transformer(AttentionEncoder):
    """Vaswani et al. 2017, as an encoder of tokens in prefix form (Arabshahi 2020, section 5, which gives no sizes):

        x_t = sqrt(H) table[token_t] + sinusoidal position of t
        the vector of a side = the mean over t of the layers' output, divided by H^(1/4)

    The division, which is not in the papers, scales the product of two sides as attention does; without it training begins at
    a loss of 7 and stays at chance for epochs.

    rotary: rotary positions in every layer (Su et al. 2021) in place of those added to x. With loops it is a Universal
    Transformer (Dehghani et al. 2019) without their halting of single tokens, which is learned, and without a code of the step:
    a deeper tree has steps that training did not have.
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
        rotary: bool = False,
        loops: int | str = 1,
    ):
        super().__init__(leaves, operators, hidden, dropout=dropout, loops=loops)
        self.layers = StandardLayers(hidden, layers, heads, feed_forward, dropout, rotary=rotary)
        self.rotary = rotary

    def positions(self, length: int, *paths: Tensor) -> Tensor:
        if self.rotary:
            return super().positions(length)
        return sinusoidal(length, self.hidden, self.table.device).to(self.table)


def sinusoidal(length: int, width: int, device: torch.device | str = "cpu") -> Tensor:
    """Return codes (length, width): sine and cosine of position / 10000^(2 i / width) in turn (Vaswani et al. 2017, 3.5)."""
    rates = torch.exp(-math.log(10_000.0) / width * torch.arange(0, width, 2, device=device))
    angles = torch.arange(length, device=device).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


class BranchCode(nn.Module):
    """The position of a node in a tree (Shiv & Quirk 2019), width n k q:

        code[i, b, f] = p_f^i sqrt((1 - p_f^2) width / 2)      if the i-th step up came from branch b, else 0

    for the first k steps up from the node, n branches, and q learned decays p_f = tanh(raw_f). Layout: i, then b, then f.
    branches: n. steps: k. width: a multiple of n k.
    """

    def __init__(self, width: int, *, branches: int = 2, steps: int = 32):
        super().__init__()
        whole(branches, "branches", 1)
        whole(steps, "steps", 1)
        if width % (branches * steps):
            raise ConfigurationError(f"The width {width} is no multiple of {branches} branches times {steps} steps.")
        self.width, self.branches, self.steps = width, branches, steps
        self.raw = nn.Parameter(torch.empty(width // (branches * steps)))

    def forward(self, paths: Tensor) -> Tensor:
        """Return codes (..., width). paths: (..., D) the branch from which the i-th step up came, -1 beyond the top."""
        paths = paths[..., : self.steps]
        one_hot = (paths.unsqueeze(-1) == torch.arange(self.branches, device=paths.device)).to(self.raw)
        decay = torch.tanh(self.raw)
        powers = decay ** torch.arange(paths.shape[-1], device=paths.device).unsqueeze(1)
        weights = powers * torch.sqrt((1 - decay**2) * self.width / 2)
        code = (one_hot.unsqueeze(-1) * weights[:, None]).flatten(-3)
        return nn.functional.pad(code, (0, self.width - code.shape[-1]))


class TreeTransformer(Transformer):
    """Shiv & Quirk 2019: the Transformer with one token per operator and leaf, without signs; a node's position is the
    `BranchCode` of its path from the top of its side. hidden is a multiple of branches times steps."""

    def __init__(self, leaves: int, operators: int, hidden: int, *, branches: int = 2, steps: int = 32, **settings: Any):
        super().__init__(leaves, operators, hidden, **settings)
        self.code, self.steps = BranchCode(hidden, branches=branches, steps=steps), steps

    def written(self, trees: Trees) -> tuple[np.ndarray, ...]:
        written = preorder(trees)
        if written[2].max(initial=0) >= self.code.branches:
            raise GraphError(f"A node has more children than {self.code.branches}, the branches of the Tree Transformer.")
        return written

    def positions(self, length: int, *paths: Tensor) -> Tensor:
        codes: Tensor = self.code(paths[0].to(self.table.device, non_blocking=True))
        return codes

    def depths(self, tokens: Tensor, *paths: Tensor) -> Tensor:
        return (paths[0] >= 0).sum(-1).amax(1)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw initial values as the Transformer does; the decays of the code are spaced evenly."""
        super().reset_parameters(generator)
        self.code.raw.copy_(torch.atanh(torch.linspace(FIRST, LAST, len(self.code.raw))))


LOOPED = {"rotary": True, "layers": 1, "loops": DEPTH}
MODELS = {
    "transformer": CellSpec(Transformer, "Arabshahi 2020", "-", "attention over prefix tokens", hidden=128),
    "rotary_transformer": CellSpec(
        Transformer, "Su 2021", "14-16", "the Transformer with rotary positions", {"rotary": True}, hidden=128
    ),
    "looped_transformer": CellSpec(
        Transformer, "Dehghani 2019", "-", "one layer, as often as the tree is deep", LOOPED, hidden=128
    ),
    "tree_transformer": CellSpec(TreeTransformer, "Arabshahi 2020", "-", "attention over nodes in their tree", hidden=128),
}
