"""Differentiable stacks as pure functions of tensors. A stack is (N, S, H): N nodes, S rows of width H, row 0 the top.

The stack has a fixed size. Pushing onto a full one loses the bottom row (overflow); popping brings an empty row in at the
bottom (underflow). An empty stack is all `empty`, zero unless said otherwise. In a stack of one row
only the no-op keeps anything.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor

# The order in which actions are named everywhere; gates are given in it.
ACTIONS = ("push", "pop", "noop")
FEW_ROWS = 2  # so small a stack is updated row by row, a larger one as a whole: the same numbers, whichever is quicker (LOG.md)
_all_by_row = ContextVar("all_by_row", default=False)


def is_by_row() -> bool:
    """Whether this runs in `row_by_row`."""
    return _all_by_row.get()


@contextmanager
def row_by_row() -> Iterator[None]:
    """Stacks of any size are updated row by row in here: what a compiler makes the best loops of."""
    token = _all_by_row.set(True)
    try:
        yield
    finally:
        _all_by_row.reset(token)


def push(stack: Float[Tensor, "N S H"], value: Float[Tensor, "N H"]) -> Float[Tensor, "N S H"]:
    """`value` becomes row 0, every row moves down by one, the bottom row is lost."""
    return torch.cat([value.unsqueeze(1), stack[:, :-1]], dim=1)


def pop(stack: Float[Tensor, "N S H"], empty: float = 0.0) -> Float[Tensor, "N S H"]:
    """Row 0 is dropped, every row moves up by one, the bottom row becomes empty."""
    return torch.cat([stack[:, 1:], torch.full_like(stack[:, :1], empty)], dim=1)


def keep(stack: Float[Tensor, "N S H"]) -> Float[Tensor, "N S H"]:
    """Nothing happens: the no-op."""
    return stack


def update(
    stack: Float[Tensor, "N S H"],
    value: Float[Tensor, "N H"],
    *gates: Float[Tensor, "N #H"],
    empty: float = 0.0,
) -> Float[Tensor, "N S H"]:
    """The soft update (Arabshahi 2019, eq. 25-26 and 31-32; Joulin & Mikolov 2015, eq. 3-4):

        S'[0] = push * value  + pop * S[1]   + noop * S[0]
        S'[i] = push * S[i-1] + pop * S[i+1] + noop * S[i]

    gates: of push, pop and, if there is one, no-op, shared by all rows: one number per node, (N, 1), or per element, (N, H).
    """
    return update_each([stack] * len(gates), value, *gates, empty=empty)


def update_each(
    stacks: Sequence[Float[Tensor, "N S H"]],
    value: Float[Tensor, "N H"],
    *gates: Float[Tensor, "N #H"],
    empty: float = 0.0,
) -> Float[Tensor, "N S H"]:
    """The soft update where every action moves a stack of its own: those of push, pop and, if there is one, no-op."""
    size = stacks[0].shape[1]
    if size <= FEW_ROWS or is_by_row():
        return torch.stack([_row(stacks, value, gates, empty, i) for i in range(size)], dim=1)
    moved = (push(stacks[0], value), pop(stacks[1], empty), *map(keep, stacks[2:]))
    return mixed(moved, [gate.unsqueeze(1) for gate in gates])


def mixed(outcomes: Sequence[Tensor], gates: Sequence[Tensor]) -> Tensor:
    """The sum of what every action would lead to, each weighted by its gate."""
    first, *rest = (gate * outcome for gate, outcome in zip(gates, outcomes, strict=True))
    return sum(rest, start=first)


def _row(stacks: Sequence[Tensor], value: Tensor, gates: Sequence[Tensor], empty: float, i: int) -> Tensor:
    """Row i after the update."""
    above = stacks[0][:, i - 1] if i else value
    below = stacks[1][:, i + 1] if i + 1 < stacks[1].shape[1] else torch.full_like(value, empty)
    return mixed((above, below, *(rows[:, i] for rows in stacks[2:])), gates)


def read(stack: Float[Tensor, "N S H"], weights: Float[Tensor, "N k"]) -> Float[Tensor, "N H"]:
    """The weighted sum of the k topmost rows."""
    return torch.einsum("nk,nkh->nh", weights, stack[:, : weights.shape[1]])
