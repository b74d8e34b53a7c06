"""The Tree Transformer: nodes instead of tokens, their places in the tree instead of in a sequence."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.encoders._contract import EncoderSpec
from dgl_treestack.encoders._positions import BranchCode
from dgl_treestack.encoders._tokens import Trees, preorder
from dgl_treestack.encoders.transformer import Transformer


class TreeTransformer(Transformer):
    """Shiv & Quirk 2019: as the Transformer, with a token per operator and leaf and no punctuation, and codes of branches
    (`BranchCode`) for a node's place below the top of its side. hidden is a multiple of branches times steps."""

    def __init__(self, leaves: int, operators: int, hidden: int, *, branches: int = 2, steps: int = 32, **settings: Any):
        super().__init__(leaves, operators, hidden, **settings)
        self.code = BranchCode(hidden, branches=branches, steps=steps)

    def encode(self, trees: Trees) -> Tensor:
        tokens, lengths, ways = preorder(trees)
        places = self.code(torch.from_numpy(ways).to(self.table.device))
        return self.read(torch.from_numpy(tokens), torch.from_numpy(lengths), places)

    def reset_parameters(self, generator: torch.Generator) -> None:
        super().reset_parameters(generator)
        self.code.reset_parameters()


MODELS = {
    "tree_transformer": EncoderSpec(TreeTransformer, "Arabshahi 2020", "-", "attention over nodes in their tree", hidden=128)
}
