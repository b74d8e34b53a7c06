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
FEW_ROWS = 2  # up to so many rows an update row by row is faster: 161 us for five rows of 4 nodes, as a whole 85
# The arguments of `limited`.
_limits: ContextVar[tuple[int | None, str, bool]] = ContextVar("limits of stacks", default=(None, "", False))


def push(stack: Float[Tensor, "N S H"], value: Float[Tensor, "N H"]) -> Float[Tensor, "N S H"]:
    """Move every row down by one and make `value` row 0; the bottom row is lost."""
    return torch.cat([value.unsqueeze(1), stack[:, :-1]], dim=1)


def pop(stack: Float[Tensor, "N S H"], empty: float = 0.0) -> Float[Tensor, "N S H"]:
    """Drop row 0 and move every row up by one; the bottom row becomes empty."""
    return torch.cat([stack[:, 1:], torch.full_like(stack[:, :1], empty)], dim=1)


@contextmanager
def limited(rows: int | None = None, without: str = "", *, few_operations: bool = False) -> Iterator[None]:
    """Within the block, `update` has these limits, beside those of a block around it.

    rows: how many top rows are kept; all others are empty. without: a name in ACTIONS, which is switched off; the gates of the
    other actions grow in proportion, so that their sum stays the same; if all of them are 0, they stay 0. A cell without this
    action is not changed. Compiled engines ignore both.
    few_operations: a third of the operations are dispatched, forward and backward, and more is copied. A GPU waits for every
    operation; a CPU computes the copies, and compiled code needs neither.
    """
    rows_around, without_around, few_around = _limits.get()
    rows = rows_around if rows is None else rows
    token = _limits.set((rows, without or without_around, few_operations or few_around))
    try:
        yield
    finally:
        _limits.reset(token)


def is_limited() -> bool:
    """Return whether rows or an action are taken away here."""
    return _limits.get()[:2] != (None, "")


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
    most_rows, without, few_operations = _limits.get()
    if without in ACTIONS[: len(gates)]:
        off = ACTIONS.index(without)
        # Not a division by the sum alone, which is 0 in float32 at times.
        rest = torch.stack([gate for i, gate in enumerate(gates) if i != off]).sum(0).clamp_min(1e-30)
        gates = tuple(torch.zeros_like(gate) if i == off else gate / rest * sum(gates) for i, gate in enumerate(gates))
    pushed, popped, *unmoved = [stacks] * len(gates) if isinstance(stacks, Tensor) else stacks
    size = pushed.shape[1]
    if few_operations and isinstance(stacks, Tensor):
        updated = cast(Tensor, _Update.apply(stacks, value, empty, *gates))
    elif size > FEW_ROWS:
        updated = weighted_sum((push(pushed, value), pop(popped, empty), *unmoved), [gate.unsqueeze(1) for gate in gates])
    else:
        rows = []
        for i in range(size):
            above = pushed[:, i - 1] if i else value
            below = popped[:, i + 1] if i + 1 < size else torch.full_like(value, empty)
            rows.append(weighted_sum((above, below, *(rows_of_noop[:, i] for rows_of_noop in unmoved)), gates))
        updated = torch.stack(rows, dim=1)
    if most_rows is None:
        return updated
    return torch.cat([updated[:, :most_rows], torch.full_like(updated[:, most_rows:], empty)], dim=1)


# Windows of one padded tensor: with the splits and gates of Tree-SMU a GPU is given 673 operations a step in place of 961 at
# batch 32, 775 in place of 1,111 at 1,024. On a CPU they made native code a fifth slower.
class _Update(torch.autograd.Function):
    """`update` of one stack in few operations, without other limits.

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
