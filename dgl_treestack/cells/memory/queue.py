"""A differentiable queue as pure functions of tensors: (N, S, H), row 0 the front, with a table of which rows are taken.

`filled` has the queue's shape, each element from 0, free, to 1, taken, and the taken ones come first. The queue has a fixed
size: what is put into a full one is lost, and leaving an empty one brings nothing.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from dgl_treestack.cells.memory import stack


def first_free(filled: Float[Tensor, "N S H"]) -> Float[Tensor, "N S H"]:
    """How much of every row is the first free one: free itself, with every row before it taken."""
    before = torch.cumprod(filled, dim=1)
    ahead = torch.cat([torch.ones_like(filled[:, :1]), before[:, :-1]], dim=1)
    return ahead * (1 - filled)


def update(
    queue: Float[Tensor, "N S H"],
    filled: Float[Tensor, "N S H"],
    value: Float[Tensor, "N H"],
    *gates: Float[Tensor, "N #H"],
) -> tuple[Float[Tensor, "N S H"], Float[Tensor, "N S H"]]:
    """The soft update of a queue and of what is taken in it: `value` joins at the end, row 0 leaves, or nothing happens.

    gates: of joining, leaving and, if there is one, no-op; one number per node, (N, 1), or one per element, (N, H).
    """
    end = first_free(filled)
    weights = [gate.unsqueeze(1) for gate in gates]
    rows = (queue + end * value.unsqueeze(1), stack.pop(queue), queue)[: len(gates)]
    taken = (filled + end, stack.pop(filled), filled)[: len(gates)]
    return stack.mixed(rows, weights), stack.mixed(taken, weights)
