"""Function evaluation: what number is this expression?"""

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.cells.initializers import draw_linear
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import MAX_NUMBER
from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression, number_value
from dgl_treestack.tasks._task import Item, NodeStates, Task

TOLERANCE = 1e-3  # relative, as in the authors' code; the papers of the card give none


class FunctionEvaluation(Task):
    """A number decoder on the state of an expression, squared error (Arabshahi 2019, section 3.2; the authors' code):

        v = W2 sigma(W1 h + b1) + b2

    It takes equations one side of which is a constant, a Number or -1 times a Number: the other side is propagated and the
    constant is the target. When both sides are constants, the right one is the target. Right means within 1e-3, relative.
    The score is the value of the left side, be it the decoded or the given one.
    """

    name = "function_evaluation"

    def __init__(self, hidden: int):
        super().__init__()
        self.decoder1 = nn.Linear(hidden, hidden)
        self.decoder2 = nn.Linear(hidden, 1)

    def accepts(self, example: Example) -> bool:
        equation = example.equation
        return (
            isinstance(equation, Equation)
            and "Number" in equation.names
            and example.label != 0  # the number of a false equation is nobody's target
            and any(_is_target(side) for side in (equation.left, equation.right))
        )

    def prepare(self, example: Example) -> Item:
        left, right, target = _sides(example)
        return Item(left if right is None else right, float(target))

    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        return self.decoder2(torch.sigmoid(self.decoder1(h(roots)))).squeeze(1)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target) ** 2

    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        close = (output - target).abs() <= TOLERANCE * torch.maximum(output.abs(), target.abs())
        return close & output.isfinite() & target.isfinite()

    def record(self, example: Example, item: Item, output: float) -> dict[str, Any]:
        decoded_left = _sides(example)[1] is None
        return {"score": output if decoded_left else item.target, "predicted": output, "target": item.target}

    def reset_parameters(self, generator: torch.Generator) -> None:
        for layer in (self.decoder1, self.decoder2):
            draw_linear(layer.weight, layer.bias, generator)


def _sides(example: Example) -> tuple[Expression, Expression | None, Fraction]:
    """(left, None, target) when the left side is to be evaluated, (left, right, target) when the right side is."""
    equation = example.equation
    assert isinstance(equation, Equation)
    right_value = _constant(equation.right)
    if right_value is not None:
        return equation.left, None, right_value
    left_value = _constant(equation.left)
    if left_value is None:
        raise ExpressionError(f"Neither side of {equation} is a number; function evaluation needs one.")
    return equation.left, equation.right, left_value


def _is_target(tree: Expression) -> bool:
    value = _constant(tree)
    return value is not None and abs(value) <= MAX_NUMBER


def _constant(tree: Expression) -> Fraction | None:
    """The value of a Number leaf, or of -1 times a Number in either order; None for anything else."""
    if tree.names == ("Number",):
        return number_value(tree.texts[0] or "")
    if tree.size == 3 and tree.names[0] == "Mul" and {"NegativeOne", "Number"} == set(tree.names[1:]):
        return -number_value(tree.texts[1 + tree.names[1:].index("Number")] or "")
    return None


TASK = FunctionEvaluation
