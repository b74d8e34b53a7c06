"""Regression: which number belongs to a tree?"""

from torch import Tensor, nn

from dgl_treestack.tasks import NodeStates, Task

TOLERANCE = 0.5  # so that a correct output rounds to a label that is a whole number


class Regression(Task):
    """A linear layer on the state of the root, squared error; for languages whose labels are numbers:

        y = w h + b

    Shapes: w (1, H), b (1,); outputs (B,). An output is correct within 0.5 of the label. The best epoch is that of the
    smallest validation loss. Labels should be of order one: divide them by their standard deviation.
    """

    name = "regression"
    has_numbers = True
    selects_by_loss = True

    def __init__(self, hidden: int):
        super().__init__()
        self.decoder = nn.Linear(hidden, 1)

    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        return self.decoder(h(roots)).squeeze(1)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target) ** 2

    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs() <= TOLERANCE


TASK = Regression
