"""Where a token stands: sinusoidal codes for sequences, codes of branches for trees."""

import math

import torch
from torch import Tensor, nn

from dgl_treestack.errors import ConfigurationError


def sinusoidal(length: int, width: int) -> Tensor:
    """(length, width): sines and cosines of place / 10000^(2 i / width) side by side (Vaswani et al. 2017, section 3.5)."""
    rates = torch.exp(-math.log(10_000.0) / width * torch.arange(0, width, 2))
    angles = torch.arange(length).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


class BranchCode(nn.Module):
    """The place of a node in a tree (Shiv & Quirk 2019), width n k q:

        code[i, b, f] = p_f^i sqrt((1 - p_f^2) width / 2)      where the i-th step up came from branch b, else 0

    for at most k steps, the last one first (those nearest to the top are dropped), n branches, and q decays p_f = tanh(raw_f),
    which are learned. Layout: i, then b, then f. Decays start evenly between 0.5 and 0.95; near 0 all but one step is lost.
    """

    FIRST, LAST = 0.5, 0.95

    def __init__(self, width: int, *, branches: int = 2, steps: int = 32):
        super().__init__()
        if branches < 1 or steps < 1:
            raise ConfigurationError(f"'branches' is {branches} and 'steps' {steps}; both must be at least 1.")
        if width % (branches * steps):
            raise ConfigurationError(f"The width {width} is no multiple of {branches} branches times {steps} steps.")
        self.width, self.branches, self.steps = width, branches, steps
        self.raw = nn.Parameter(torch.empty(width // (branches * steps)))

    def forward(self, ways: Tensor) -> Tensor:
        """ways: (..., D) the branch taken by the i-th step up, -1 beyond the top. Returns (..., width)."""
        ways = ways[..., : self.steps]
        hot = nn.functional.one_hot((ways + 1).clamp(min=0), self.branches + 1)[..., 1:].to(self.raw)
        decay = torch.tanh(self.raw)
        powers = decay ** torch.arange(ways.shape[-1], device=ways.device).unsqueeze(1)
        weights = powers * torch.sqrt((1 - decay**2) * self.width / 2)
        code = (hot.unsqueeze(-1) * weights[:, None]).flatten(-3)
        return nn.functional.pad(code, (0, self.width - code.shape[-1]))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """The decays at their start."""
        self.raw.copy_(torch.atanh(torch.linspace(self.FIRST, self.LAST, len(self.raw))))
