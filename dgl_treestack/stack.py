"""Differentiable stacks as pure functions of tensors. A stack is (N, S, H): N nodes, S rows of width H, row 0 the top.

The stack has a fixed size. Pushing onto a full one loses the bottom row (overflow); popping brings an empty row in at the
bottom (underflow). An empty stack is all `empty`, zero unless said otherwise.
"""

import torch
from jaxtyping import Float
from torch import Tensor

# The order in which actions are named everywhere; `update` takes their gates in it.
ACTIONS = ("push", "pop", "noop")


def push(stack: Float[Tensor, "N S H"], value: Float[Tensor, "N H"]) -> Float[Tensor, "N S H"]:
    """`value` becomes row 0, every row moves down by one, the bottom row is lost."""
    return torch.cat([value.unsqueeze(1), stack[:, :-1]], dim=1)


def pop(stack: Float[Tensor, "N S H"], empty: float = 0.0) -> Float[Tensor, "N S H"]:
    """Row 0 is dropped, every row moves up by one, the bottom row becomes empty."""
    return torch.cat([stack[:, 1:], torch.full_like(stack[:, :1], empty)], dim=1)


def update(
    stack: Float[Tensor, "N S H"],
    value: Float[Tensor, "N H"],
    push_gate: Float[Tensor, "N #H"],
    pop_gate: Float[Tensor, "N #H"],
    noop_gate: Float[Tensor, "N #H"] | None = None,
    *,
    empty: float = 0.0,
) -> Float[Tensor, "N S H"]:
    """The soft update (Arabshahi 2019, eq. 25-26 and 31-32; Joulin & Mikolov 2015, eq. 3-4):

        S'[0] = push * value  + pop * S[1]   + noop * S[0]
        S'[i] = push * S[i-1] + pop * S[i+1] + noop * S[i]

    A gate is one number per node, (N, 1), or one per element, (N, H); every row shares it.
    """
    updated = push_gate.unsqueeze(1) * push(stack, value) + pop_gate.unsqueeze(1) * pop(stack, empty)
    return updated if noop_gate is None else updated + noop_gate.unsqueeze(1) * stack


def read(stack: Float[Tensor, "N S H"], weights: Float[Tensor, "N k"]) -> Float[Tensor, "N H"]:
    """The weighted sum of the k topmost rows."""
    return torch.einsum("nk,nkh->nh", weights, stack[:, : weights.shape[1]])
