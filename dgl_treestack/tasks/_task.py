"""The contract of a task."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dgl_treestack.cells import draw_linear
from dgl_treestack.data.formats import Example
from dgl_treestack.expression import Expression

# The states h of nodes, by their indices in the batch: (...) -> (..., H).
NodeStates = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Item:
    """What a model is given for one example: a tree, and the target of its output (NaN where unknown)."""

    tree: Expression
    target: float


class Task(nn.Module, abc.ABC):
    """Base of all tasks: a head over node states, its loss, and what counts as right. `hidden` is the width H of h.

    `name` stands for the task in configurations. A model with several tasks gives an example to the first that accepts it.
    `compares_sides`: whether trees must be equations, because `forward` reads the two sides of the root.
    A subclass defines `accepts`, `forward`, `loss` and `correct`, and the other methods where the defaults do not fit.
    """

    name: ClassVar[str]
    compares_sides: ClassVar[bool] = False

    @abc.abstractmethod
    def accepts(self, example: Example) -> bool:
        """Whether the example belongs to this task."""

    def prepare(self, example: Example) -> Item:
        """Return the tree to propagate and the target: by default the whole tree and its label."""
        return Item(example.equation, float("nan") if example.label is None else float(example.label))

    @abc.abstractmethod
    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        """Return one output per tree (B,).

        roots: (B,) nodes. sides: (B, 2) the first two children of the roots, -1 where there are none.
        """

    @abc.abstractmethod
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of every output (B,)."""

    @abc.abstractmethod
    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        """Return whether every output is right (B,)."""

    def record(self, example: Example, item: Item, output: float) -> dict[str, Any]:
        """Return what the task adds to an example's record: `score`, by default the output, and anything else it knows."""
        return {"score": output}

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the initial values of linear layers by `draw_linear`. A task with other parameters must set those."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                draw_linear(module.weight, module.bias, generator)
