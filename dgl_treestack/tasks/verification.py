"""Verification: does an equation hold?"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import one_of, whole
from dgl_treestack.tasks import NodeStates, Task

COMPARISONS = ("dot", "slots")
SCALE = 4.0  # of the opinions of slots, so that small weights give clear answers


class Verification(Task):
    """The root of an equation (Arabshahi 2019, section 3.2):

        s = h_left . h_right + b        P(correct) = sigma(s)

    With compare = "slots" the sides are compared part by part. h is K slots of d numbers, l and r those of the sides. For every
    slot k one network gives an opinion o and a weight w:

        (o[k], w[k]) = W_2 gelu(W_1 [|l[k] - r[k]|; l[k] * r[k]] + b_1) + b_2
        s = 4 sum_k softmax(w)[k] o[k] + b          in training
        s = 4 mean_k o[k] + b                       in evaluation mode

    Shapes: W_1 (2d, 2d), W_2 (2, 2d); one slot makes it a network over the whole h. The weights are learned at the depths of
    training; beyond them equal weights are more accurate (docs/results/beyond.md).

    The loss is the logistic loss of s, as of a softmax over [0, s]. An output is correct if P(label) > 0.5; s = 0 is wrong.
    The papers do not mention b; the authors' code has it, as one learned number that starts at 0.
    """

    name = "verification"
    compares_sides = True

    def __init__(self, hidden: int, *, compare: str = "dot", slots: int = 1):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.slots = whole(slots, "slots", 1)
        self.by_slot: nn.Module | None = None
        if one_of(COMPARISONS, compare, "compare") == "slots":
            if hidden % slots:
                raise ConfigurationError(f"'hidden' is {hidden}, which the {slots} slots of the head do not divide evenly.")
            width = 2 * hidden // slots
            self.by_slot = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2))

    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        left, right = h(sides).unbind(1)
        if self.by_slot is None:
            return (left * right).sum(1) + self.bias
        left, right = left.unflatten(1, (self.slots, -1)), right.unflatten(1, (self.slots, -1))
        opinion, weight = self.by_slot(torch.cat([(left - right).abs(), left * right], dim=2)).unbind(2)
        # At depths 14-16 plain means are right for 88.2 % of equations, weights for 86.5 (five seeds); without weights in
        # training 86.7.
        score = (weight.softmax(1) * opinion).sum(1) if self.training else opinion.mean(1)
        return SCALE * score + self.bias

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(output, target, reduction="none")

    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        return torch.where(target > 0.5, output > 0, output < 0)

    def reset_parameters(self, generator: torch.Generator) -> None:
        super().reset_parameters(generator)
        nn.init.zeros_(self.bias)


TASK = Verification
