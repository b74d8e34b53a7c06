"""A differentiable stack as pure functions of tensors: (N, S, H), N nodes, S rows of width H, row 0 the top.

The stack has a fixed size. Pushing onto a full stack loses the bottom row (overflow); popping adds an empty row at the bottom
(underflow). All entries of an empty row are `empty`, 0 by default. In a stack of one row only the no-op keeps content.
`limited` takes rows or an action away from a trained model, to measure what it uses them for.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

# Names of the actions, in the order in which gates are passed.
ACTIONS = ("push", "pop", "noop")
_limits: ContextVar[tuple[int | None, str]] = ContextVar("limits of stacks", default=(None, ""))
_has_few_operations: ContextVar[bool] = ContextVar("few operations", default=False)
FEW_ROWS = 2  # up to so many rows it is faster to update a stack row by row


def push(stack: Float[Tensor, "N S H"], value: Float[Tensor, "N H"]) -> Float[Tensor, "N S H"]:
    """Move every row down by one and make `value` row 0; the bottom row is lost."""
    return torch.cat([value.unsqueeze(1), stack[:, :-1]], dim=1)


def pop(stack: Float[Tensor, "N S H"], empty: float = 0.0) -> Float[Tensor, "N S H"]:
    """Drop row 0 and move every row up by one; the bottom row becomes empty."""
    return torch.cat([stack[:, 1:], torch.full_like(stack[:, :1], empty)], dim=1)


@contextmanager
def limited(rows: int | None = None, without: str = "") -> Iterator[None]:
    """Within the block, `update` empties all rows but the top ones and switches off an action.

    rows: how many are kept, all by default. without: a name in ACTIONS; the gates of the other actions grow in proportion, so
    that their sum stays the same; if all of them are 0, they stay 0. A cell without this action is not changed. Compiled
    engines ignore the limits.
    """
    token = _limits.set((rows, without))
    try:
        yield
    finally:
        _limits.reset(token)


def is_limited() -> bool:
    """Return whether this is within a block of `limited`."""
    return _limits.get() != (None, "")


@contextmanager
def few_operations(on: bool = True) -> Iterator[None]:
    """Within the block, `update` dispatches a third of the operations, forward and backward, and copies more.

    A GPU waits for every operation; a CPU computes the copies, and compiled code needs neither.
    """
    token = _has_few_operations.set(on)
    try:
        yield
    finally:
        _has_few_operations.reset(token)


def update(
    stacks: Float[Tensor, "N S H"] | Sequence[Float[Tensor, "N S H"]],
    value: Float[Tensor, "N H"],
    *gates: Float[Tensor, "N #H"],
    empty: float = 0.0,
) -> Float[Tensor, "N S H"]:
    """Return the stack after a soft action (Arabshahi 2019, eq. 25-26 and 31-32; Joulin & Mikolov 2015, eq. 3-4):

        S'[0] = push * value  + pop * S[1]   + noop * S[0]
        S'[i] = push * S[i-1] + pop * S[i+1] + noop * S[i]

    stacks: S, or one stack per action for the three uses of S. gates: weights of push, pop and, optionally, no-op, equal for
    all rows: one number per node, (N, 1), or one per element, (N, H). empty: value of the entries below the bottom.
    """
    most_rows, without = _limits.get()
    if without in ACTIONS[: len(gates)]:
        off = ACTIONS.index(without)
        rest = torch.stack([gate for i, gate in enumerate(gates) if i != off]).sum(0).clamp_min(1e-30)  # 0 in float32 at times
        gates = tuple(torch.zeros_like(gate) if i == off else gate / rest * sum(gates) for i, gate in enumerate(gates))
    if isinstance(stacks, Tensor) and _has_few_operations.get():
        updated = cast(Tensor, _Update.apply(stacks, value, empty, *gates))
    else:
        updated = _updated([stacks] * len(gates) if isinstance(stacks, Tensor) else stacks, value, gates, empty)
    if most_rows is None:
        return updated
    return torch.cat([updated[:, :most_rows], torch.full_like(updated[:, most_rows:], empty)], dim=1)


def _updated(stacks: Sequence[Tensor], value: Tensor, gates: Sequence[Tensor], empty: float) -> Tensor:
    """Return what `update` does, without limits. stacks: one per action."""
    pushed, popped, *unmoved = stacks
    size = pushed.shape[1]
    if size > FEW_ROWS:
        return weighted_sum((push(pushed, value), pop(popped, empty), *unmoved), [gate.unsqueeze(1) for gate in gates])
    rows = []
    for i in range(size):
        above = pushed[:, i - 1] if i else value
        below = popped[:, i + 1] if i + 1 < size else torch.full_like(value, empty)
        rows.append(weighted_sum((above, below, *(rows_of_noop[:, i] for rows_of_noop in unmoved)), gates))
    return torch.stack(rows, dim=1)


class _Update(torch.autograd.Function):
    """`_updated` of one stack in few operations.

    windows: (N, actions, S, H) the stack after each action, push, [no-op] and pop, as a view of [value; stack; empty row].
    """

    @staticmethod
    def forward(ctx: Any, stack: Tensor, value: Tensor, empty: float, *gates: Tensor) -> Tensor:
        bottom = torch.full_like(value, empty)
        padded = torch.cat([value.unsqueeze(1), stack, bottom.unsqueeze(1)], 1)
        push_gate, pop_gate, *noop_gate = gates
        gate = torch.stack([push_gate, *noop_gate, pop_gate], 1).unsqueeze(2)
        ctx.save_for_backward(padded, gate)
        return (gate * _windows(padded, len(gates))).sum(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        padded, gate = ctx.saved_tensors
        gradient = gradient.unsqueeze(1)
        gradient_gate = (gradient * _windows(padded, gate.shape[1])).sum(2).sum_to_size(gate.squeeze(2).shape)
        pushed, *unmoved, popped = (gate * gradient).unbind(1)
        gradient_stack = unmoved[0] if unmoved else torch.zeros_like(pushed)
        gradient_stack[:, :-1].add_(pushed[:, 1:])
        gradient_stack[:, 1:].add_(popped[:, :-1])
        push_gate, *noop_gate, pop_gate = gradient_gate.unbind(1)
        return gradient_stack, pushed[:, 0], None, push_gate, pop_gate, *noop_gate


def _windows(padded: Tensor, actions: int) -> Tensor:
    return padded.unfold(1, padded.shape[1] - 2, 1 if actions > 2 else 2).transpose(2, 3)


def weighted_sum(outcomes: Sequence[Tensor], gates: Sequence[Tensor]) -> Tensor:
    """Return the sum of the outcomes of all actions, each multiplied by its gate."""
    first, *rest = (gate * outcome for gate, outcome in zip(gates, outcomes, strict=True))
    return sum(rest, start=first)


def read(stack: Float[Tensor, "N S H"], weights: Float[Tensor, "N k"]) -> Float[Tensor, "N H"]:
    """Return the weighted sum of the top k rows."""
    return torch.einsum("nk,nkh->nh", weights, stack[:, : weights.shape[1]])
