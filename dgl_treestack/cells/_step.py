"""What goes into a step of a cell and comes out of it."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

State = dict[str, Tensor]
Signals = dict[str, Tensor]
Noise = Mapping[str, Tensor]
Shape = tuple[int, ...]
FORMS = ("nary", "child_sum")
PER_CHILD = -1  # in the shape of a signal: one entry per child


@runtime_checkable
class Ops(Protocol):
    """The operators of a frontier, as a cell sees them."""

    def linear(self, product: str, x: Tensor) -> Tensor:
        """Weight and bias of every node's own operator applied to its row of x, (nodes, ..., in) -> (nodes, ..., out)."""
        ...


def dropped(x: Tensor, noise: Noise, name: str) -> Tensor:
    """x with the dropout of a noise field applied, or x itself when there is none."""
    return x * noise[name] if name in noise else x
