"""A Stack RNN over many tokens, with a backward pass written by hand: autograd's gradients, several times as fast on a CPU.

Tensor `rows` (T + 1, C + 2, R, B, M, W) has the stacks before every token and after the last. Index 0 of the second dimension
is for the pushed value, and the last index has the content of an empty row, so that rows[t, : C], rows[t, 2 :] and
rows[t, 1 : C + 1] are the stacks after a push, a pop and a no-op. Each of these is one block of memory.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgl_treestack.gradients import once_differentiable
from dgl_treestack.sequence._acting import LARGEST


class Unrolling(NamedTuple):
    """What is constant during all tokens.

    capacity: C. depth: k, the number of rows that h reads. actions: a, in the order of `stack.ACTIONS`. empty: content of an
    empty row. beta: factor of the actions' logits. filled: the number of top rows of the initial stacks that may differ from
    an empty row; rows below are skipped until a push can have reached them. clip: bound of the gradients of h and of the stacks
    at every token; with it, the initial state gets no gradient.
    """

    capacity: int
    depth: int
    actions: int
    empty: float
    beta: float
    filled: int
    clip: float | None = None


class StackUnroll(torch.autograd.Function):
    """Map the results of `drive` (T, R, B, H) to h after every token (T, R, B, H) and the last stacks (R, B, M, C, W).

    read: weights (R, M k W, H) of the rows that h reads, followed, if h reads the previous h, by those of it (R, H, H). write:
    weights (R, H, M W + M a) of the values and of the logits of the actions. h, stacks: the state before the first token.
    """

    @staticmethod
    def forward(
        ctx: Any, driven: Tensor, read: Tensor, write: Tensor, h: Tensor, stacks: Tensor, constants: Unrolling
    ) -> tuple[Tensor, Tensor]:
        capacity, depth, actions, empty, beta, filled, _ = constants
        memories, initial_rows, width = stacks.shape[-3:]
        sizes, values = driven.shape[:-1], memories * width
        reads_h = read.shape[-2] > values * depth
        rows = driven.new_empty(len(driven) + 1, capacity + 2, *sizes[1:], memories, width)
        rows[0, 1 : 1 + initial_rows] = stacks.movedim(-2, 0)
        inputs = driven.new_empty(*sizes, read.shape[-2])
        shares = driven.new_empty(*sizes, memories, actions)
        all_h = torch.empty_like(driven, memory_format=torch.contiguous_format)
        input_rows, input_h = inputs.split([values * depth, inputs.shape[-1] - values * depth], -1)
        input_rows = input_rows.unflatten(-1, (memories, depth, width)).movedim(-2, 1)
        previous_h = h
        per_token = (driven, inputs, input_rows, input_h, all_h, shares, rows[:-1])
        for t, (drive, input_t, input_rows_t, input_h_t, h_t, shares_t, rows_t) in enumerate(
            zip(*(values_of_tokens.unbind(0) for values_of_tokens in per_token), strict=True)
        ):
            first_empty = min(filled + t, capacity) + 1
            rows_t[first_empty : max(first_empty + 2, depth + 1)] = empty
            input_rows_t.copy_(rows_t[1 : 1 + depth])
            if reads_h:
                input_h_t.copy_(previous_h)
            torch.sigmoid((input_t @ read).add_(drive).clamp_(-LARGEST, LARGEST), out=h_t)
            written = h_t @ write
            rows_t[0] = written[..., :values].clamp(-LARGEST, LARGEST).sigmoid_().unflatten(-1, (memories, width))
            torch.softmax(written[..., values:].unflatten(-1, (memories, actions)).mul_(beta), -1, out=shares_t)
            used = min(capacity, filled + t + 1)
            push, pop, *noop = shares_t.unsqueeze(-2).unbind(-1)
            after = torch.mul(rows_t[:used], push, out=rows[t + 1, 1 : used + 1]).addcmul_(rows_t[2 : used + 2], pop)
            for share in noop:
                after.addcmul_(rows_t[1 : used + 1], share)
            previous_h = h_t
        rows[-1, min(filled + len(driven), capacity) + 1 :] = empty
        ctx.save_for_backward(read, write, h, stacks, inputs, all_h, shares, rows)
        ctx.constants = constants
        return all_h, rows[-1, 1:-1].movedim(0, -2).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_all_h: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        read, write, h, stacks, inputs, all_h, shares, rows = ctx.saved_tensors
        capacity, depth, actions, _, beta, filled, clip = ctx.constants
        memories, initial_rows, width = stacks.shape[-3:]
        values = memories * width
        slopes_of_h, pushed = all_h * (1 - all_h), rows[:-1, 0]
        slopes_of_values = pushed * (1 - pushed)
        grad_written = all_h.new_empty(*all_h.shape[:-1], write.shape[-1])
        grad_values = grad_written[..., :values].unflatten(-1, (memories, width))
        grad_logits = grad_written[..., values:].unflatten(-1, (memories, actions))
        grad_totals = torch.empty_like(all_h)
        # Gradients of the stacks after and before a token, with a row of zeros above and below
        grad_after, grad_before = rows.new_zeros(2, *rows.shape[1:])
        grad_after[1:-1] = grad_last.movedim(-2, 0)
        grad_h = torch.zeros_like(h)
        offsets = (0, 2, 1)[:actions]
        read_back, write_back = read.mT.contiguous(), write.mT.contiguous()
        for t in reversed(range(len(all_h))):
            used, used_before = min(capacity, filled + t + 1), min(capacity, filled + t)
            if clip is not None:
                grad_after.clamp_(-clip, clip)
            gradient = grad_after[1 : used + 1]
            grad_shares = torch.stack([(gradient * rows[t, i : i + used]).sum((0, -1)) for i in offsets], -1)
            push, pop, *noop = shares[t].unsqueeze(-2).unbind(-1)
            grad_values[t] = gradient[0] * push * slopes_of_values[t]
            grad_logits[t] = beta * shares[t] * (grad_shares - (grad_shares * shares[t]).sum(-1, keepdim=True))
            grad_h += grad_all_h[t]
            grad_h += grad_written[t] @ write_back
            if clip is not None:
                grad_h.clamp_(-clip, clip)
            grad_total = torch.mul(grad_h, slopes_of_h[t], out=grad_totals[t])
            grad_inputs = grad_total @ read_back
            before = torch.mul(grad_after[2 : used_before + 2], push, out=grad_before[1 : used_before + 1])
            before.addcmul_(grad_after[:used_before], pop)
            for share in noop:
                before.addcmul_(grad_after[1 : used_before + 1], share)
            grad_read = grad_inputs[..., : values * depth].unflatten(-1, (memories, depth, width)).movedim(-2, 0)
            before[:depth] += grad_read[: len(before)]
            grad_h = grad_inputs[..., values * depth :] if inputs.shape[-1] > values * depth else torch.zeros_like(grad_h)
            grad_after, grad_before = grad_before, grad_after
        grad_read = _product(inputs, grad_totals)
        grad_write = _product(all_h, grad_written)
        if clip is not None:
            return grad_totals, grad_read, grad_write, None, None, None
        return grad_totals, grad_read, grad_write, grad_h, grad_after[1 : 1 + initial_rows].movedim(0, -2), None


def _product(inputs: Tensor, gradients: Tensor) -> Tensor:
    """Return the gradient (R, n, m) of weights. inputs: theirs (T, R, B, n). gradients: those of their outputs (T, R, B, m)."""
    inputs, gradients = (values.movedim(0, -3).flatten(-3, -2) for values in (inputs, gradients))
    return inputs.mT @ gradients
