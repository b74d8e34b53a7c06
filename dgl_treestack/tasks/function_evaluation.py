"""Function evaluation: which number does an expression equal?"""

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import MAX_NUMBER
from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression, number_value
from dgl_treestack.tasks import Item, NodeStates, Task

TOLERANCE = 1e-3  # relative, as in the authors' code; the papers give none


class FunctionEvaluation(Task):
    """A number decoder on the state of an expression, squared error (Arabshahi 2019, section 3.2; the authors' code):

        v = W2 sigma(W1 h + b1) + b2

    It takes equations with a side that is a constant, a Number or -1 times a Number: the other side is propagated and the
    constant is the target. If both sides are constants, the right one is the target. An output within a relative 1e-3 is
    correct. The score is the value of the left side: the output if that side is propagated, otherwise the constant.
    """

    name = "function_evaluation"

    def __init__(self, hidden: int):
        super().__init__()
        self.decoder1 = nn.Linear(hidden, hidden)
        self.decoder2 = nn.Linear(hidden, 1)

    def accepts(self, example: Example) -> bool:
        equation = example.equation
        if not isinstance(equation, Equation) or "Number" not in equation.names:
            return False
        if example.label == 0:  # the constant of a false equation is no target
            return False
        constants = (_constant(side) for side in (equation.left, equation.right))
        return any(value is not None and abs(value) <= MAX_NUMBER for value in constants)

    def prepare(self, example: Example) -> Item:
        equation = example.equation
        assert isinstance(equation, Equation)
        for tree, side in ((equation.left, equation.right), (equation.right, equation.left)):
            constant = _constant(side)
            if constant is not None:
                return Item(tree, float(constant))
        raise ExpressionError(f"Neither side of {equation} is a number; function evaluation needs one.")

    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        return self.decoder2(torch.sigmoid(self.decoder1(h(roots)))).squeeze(1)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target) ** 2

    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        close = (output - target).abs() <= TOLERANCE * torch.maximum(output.abs(), target.abs())
        return close & output.isfinite() & target.isfinite()

    def record(self, example: Example, item: Item, output: float | list[float]) -> dict[str, Any]:
        equation = example.equation
        assert isinstance(equation, Equation)
        decoded_left = _constant(equation.right) is not None
        return {"score": output if decoded_left else item.target, "predicted": output, "target": item.target}


def _constant(tree: Expression) -> Fraction | None:
    """Return the value of a Number leaf, or of -1 times a Number in either order; None for any other tree."""
    if tree.names == ("Number",):
        return number_value(tree.texts[0] or "")
    if tree.size == 3 and tree.names[0] == "Mul" and {"NegativeOne", "Number"} == set(tree.names[1:]):
        return -number_value(tree.texts[1 + tree.names[1:].index("Number")] or "")
    return None


TASK = FunctionEvaluation
