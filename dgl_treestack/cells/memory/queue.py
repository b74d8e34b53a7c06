"""A differentiable queue as a pure function of tensors: (N, S, H), N nodes, S rows of width H, row 0 the front.

A second tensor of the same shape, `filled`, says how far each row is occupied, from 0 to 1; occupied rows come first. The
queue has a fixed size: a value that joins a full queue is lost, and what leaves an empty queue is zero.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from dgl_treestack.cells.memory import stack


def update(
    queue: Float[Tensor, "N S H"],
    filled: Float[Tensor, "N S H"],
    value: Float[Tensor, "N H"],
    *gates: Float[Tensor, "N #H"],
) -> tuple[Float[Tensor, "N S H"], Float[Tensor, "N S H"]]:
    """Return queue and `filled` after a soft action: `value` joins at the end, row 0 leaves, or nothing happens.

    gates: weights of joining, leaving and, optionally, the no-op: one number per node, (N, 1), or one per element, (N, H).
    """
    occupied_to_here = torch.cumprod(filled, dim=1)
    occupied_before = torch.cat([torch.ones_like(filled[:, :1]), occupied_to_here[:, :-1]], dim=1)
    end = occupied_before * (1 - filled)  # how far each row is the first free one
    queues = (queue + end * value.unsqueeze(1), stack.pop(queue), queue)[: len(gates)]
    fillings = (filled + end, stack.pop(filled), filled)[: len(gates)]
    weights = [gate.unsqueeze(1) for gate in gates]
    return stack.weighted_sum(queues, weights), stack.weighted_sum(fillings, weights)
