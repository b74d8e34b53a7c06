"""Relation: which class relates the two trees of a pair?"""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.tasks import NodeStates
from dgl_treestack.tasks.classification import Classification


class Relation(Classification):
    """A comparison layer on the states l, r of two trees (Bowman, Potts & Manning 2015), with products as in Tai et al. 2015:

        u = tanh(V [l; r; |l - r|; l * r] + c)        P(class) = softmax(W u + b)

    Shapes: V (H, 4H), c (H,), W (K, H), b (K,); outputs (B, K). Loss and correctness are those of classification.
    """

    name = "relation"
    compares_sides = True

    def __init__(self, hidden: int, **settings: Any):
        super().__init__(hidden, **settings)
        self.comparison = nn.Linear(4 * hidden, hidden)

    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        left, right = h(sides).unbind(1)
        compared = torch.cat([left, right, (left - right).abs(), left * right], dim=1)
        return self.decoder(torch.tanh(self.comparison(compared)))


TASK = Relation
