"""Verification: does an equation hold?"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.data.formats import Example
from dgl_treestack.expression import Equation
from dgl_treestack.tasks import NodeStates, Task


class Verification(Task):
    """The root of an equation (Arabshahi 2019, section 3.2):

        s = h_left . h_right + b        P(correct) = sigma(s)

    The loss is the logistic loss of s, as of a softmax over [0, s]. An output is correct if P(label) > 0.5; s = 0 is wrong.
    The papers do not mention b; the authors' code has it, as one learned number that starts at 0.
    """

    name = "verification"
    compares_sides = True

    def __init__(self, hidden: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def accepts(self, example: Example) -> bool:
        return isinstance(example.equation, Equation)

    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        left, right = h(sides).unbind(1)
        return (left * right).sum(1) + self.bias

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(output, target, reduction="none")

    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        return torch.where(target > 0.5, output > 0, output < 0)

    def reset_parameters(self, generator: torch.Generator) -> None:
        nn.init.zeros_(self.bias)


TASK = Verification
