"""The Transformer, which reads a side token by token in prefix form, and the Tree Transformer, which reads it node by node."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import CellSpec
from dgl_treestack.errors import ConfigurationError, GraphError
from dgl_treestack.plain_data import whole
from dgl_treestack.sequence._tokens import Trees, prefix, preorder
from dgl_treestack.sequence.encoders import Encoder

GROUPS, ROWS = 4, 32  # a batch is split by length into groups of about ROWS sequences, at least GROUPS of them
FIRST, LAST = 0.5, 0.95  # initial decays; a decay near 0 would keep one step only


class Layers(nn.Module):
    """torch's encoder layers, with normalisation before attention and before the feed-forward part, and a mean over tokens."""

    def __init__(self, hidden: int, layers: int, heads: int, feed_forward: int, dropout: float):
        super().__init__()
        for name, value in (("layers", layers), ("heads", heads), ("feed_forward", feed_forward)):
            whole(value, name, 1)
        if hidden % heads:
            raise ConfigurationError(f"'hidden' is {hidden}, no multiple of {heads} heads.")
        # torch's fast path for inference, left on, is slower than its own attention: 2.4 s in place of 2.0 for 2,048 sides.
        layer = nn.TransformerEncoderLayer(hidden, heads, feed_forward, dropout, batch_first=True, norm_first=True)
        self.stack = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(hidden), enable_nested_tensor=False)

    def forward(self, x: Tensor, lengths: Tensor, *, fixed: bool = False) -> Tensor:
        """Return the mean output (K, H) of the first `lengths` (K,) tokens of x (K, T, H).

        Sequences of similar lengths, which are on the CPU, form a group; in one group, with `fixed`, more than half of the work
        would be padding.
        """
        if fixed:
            return self.mean(x, lengths)
        # A third of the time went into padding: 39 ms a batch in place of 50.
        order = lengths.argsort()
        means = []
        for rows in order.chunk(max(GROUPS, len(order) // ROWS)):
            longest = int(lengths[rows].max())
            length, rows = (values.to(x.device, non_blocking=True) for values in (lengths[rows], rows))
            means.append(self.mean(x[rows, :longest], length))
        return torch.cat(means)[order.argsort().to(x.device, non_blocking=True)]

    def mean(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean output (K, H) of the first `lengths` (K,) tokens of x (K, T, H)."""
        padding = torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)
        output = self.stack(x, src_key_padding_mask=padding)
        return output.masked_fill(padding.unsqueeze(-1), 0.0).sum(1) / lengths.unsqueeze(1)


class Transformer(Encoder):
    """Vaswani et al. 2017, as an encoder of tokens in prefix form (Arabshahi 2020, section 5, which gives no sizes):

        x_t = sqrt(H) table[token_t] + sinusoidal position of t
        the vector of a side = the mean over t of the layers' output, divided by H^(1/4)

    The division, which is not in the papers, scales the product of two sides as attention does; without it training begins at
    a loss of 7 and stays at chance for epochs. Dropout acts on x and within the layers.
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

    def written(self, trees: Trees) -> tuple[np.ndarray, ...]:
        return prefix(trees, self.signs)

    def read(self, tokens: Tensor, lengths: Tensor, *paths: Tensor, fixed: bool = False) -> Tensor:
        x = math.sqrt(self.hidden) * functional.embedding(tokens.to(self.table.device, non_blocking=True), self.table)
        x = x + self.positions(tokens.shape[1], *paths)
        mean: Tensor = self.layers(functional.dropout(x, self.dropout, self.training), lengths, fixed=fixed)
        # Rejected: tanh of a linear layer, 56.7 % after 16 epochs of 600 equations in place of 60.0 to 76.7.
        return mean / self.hidden**0.25

    def positions(self, length: int, *paths: Tensor) -> Tensor:
        """Return the codes (..., T, H) of the positions of T tokens."""
        return sinusoidal(length, self.hidden, self.table.device).to(self.table)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the table from N(0, 1 / H), so that tokens times sqrt(H) are as large as positions, and the layers' matrices by
        Glorot's uniform rule. Biases are 0, scales of normalisation 1."""
        # Drawn from N(0, 1), tokens drowned the positions: x and y exchanged changed a vector by 0.1 %.
        nn.init.normal_(self.table, 0.0, self.hidden**-0.5, generator=generator)
        for name, parameter in self.layers.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.constant_(parameter, float("norm" in name and name.endswith("weight")))


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

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw initial values as the Transformer does; the decays of the code are spaced evenly."""
        super().reset_parameters(generator)
        self.code.raw.copy_(torch.atanh(torch.linspace(FIRST, LAST, len(self.code.raw))))


MODELS = {
    "transformer": CellSpec(Transformer, "Arabshahi 2020", "-", "attention over prefix tokens", hidden=128),
    "tree_transformer": CellSpec(TreeTransformer, "Arabshahi 2020", "-", "attention over nodes in their tree", hidden=128),
}
