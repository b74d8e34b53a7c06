"""The Tree Transformer: a Transformer over nodes in place of tokens, with the position of a node in its tree."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.encoders._contract import EncoderSpec
from dgl_treestack.encoders._tokens import Trees, preorder
from dgl_treestack.encoders.transformer import Transformer
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.settings import whole

FIRST, LAST = 0.5, 0.95  # initial decays; a decay near 0 would keep one step only


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
        one_hot = nn.functional.one_hot((paths + 1).clamp(min=0), self.branches + 1)[..., 1:].to(self.raw)
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
        self.code = BranchCode(hidden, branches=branches, steps=steps)

    def encode(self, trees: Trees) -> Tensor:
        tokens, lengths, paths = preorder(trees)
        positions = self.code(torch.from_numpy(paths).to(self.table.device, non_blocking=True))
        return self.read(torch.from_numpy(tokens), torch.from_numpy(lengths), positions)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw initial values as the Transformer does; the decays of the code are spaced evenly."""
        super().reset_parameters(generator)
        self.code.raw.copy_(torch.atanh(torch.linspace(FIRST, LAST, len(self.code.raw))))


MODELS = {
    "tree_transformer": EncoderSpec(TreeTransformer, "Arabshahi 2020", "-", "attention over nodes in their tree", hidden=128)
}
