"""The contract of a task."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dgl_treestack.data.formats import Example
from dgl_treestack.expression import Expression

# The states h of nodes, by their numbers in the batch: (...) -> (..., H).
NodeStates = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Item:
    """What a model is given for one example: a tree, and the number that is wanted (NaN where unknown)."""

    tree: Expression
    target: float


class Task(nn.Module, abc.ABC):
    """A head over node states. `hidden` is the width of h.

    `name` is what configurations say. A model with several tasks gives an example to the first that accepts it.
    `compares_sides`: whether the root has to be an equation's, because `forward` reads its two sides.
    """

    name: ClassVar[str]
    compares_sides: ClassVar[bool] = False

    @abc.abstractmethod
    def accepts(self, example: Example) -> bool:
        """Whether the example is one of this task."""

    @abc.abstractmethod
    def prepare(self, example: Example) -> Item:
        """The tree to propagate and the number that is wanted."""

    @abc.abstractmethod
    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        """The output for trees given by their root nodes (B,) and the first two children of these (B, 2), -1 where there are
        none: (B,)."""

    @abc.abstractmethod
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """(B,) loss of every output."""

    @abc.abstractmethod
    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        """(B,) whether every output is right."""

    @abc.abstractmethod
    def record(self, example: Example, item: Item, output: float) -> dict[str, Any]:
        """What goes into the record of an example besides its description: `score` and whatever else the task knows."""

    @abc.abstractmethod
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the initial values."""
