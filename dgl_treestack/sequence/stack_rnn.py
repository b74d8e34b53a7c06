"""Stack RNN: a recurrent net with stacks, each updated by a mixture of push, pop and no-op; many tokens by hand."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dgl_treestack._torch import once_differentiable
from dgl_treestack.cells import Signals, State
from dgl_treestack.cells.memory import stack
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import one_of, switch, whole
from dgl_treestack.sequence._contract import EMPTY, ActingCell, weight_gradient

RECURRENCES = ("none", "stacks", "full")
PIECE = 64  # without gradients, sequences are computed in pieces of so many tokens, since all stacks of a piece are kept


class StackRNN(ActingCell):
    """Joulin & Mikolov 2015, eq. 3-7, for M stacks s of cells of width W (as printed W = 1):

        h_t    = sigma(U x_t + R h_{t-1} + sum_s P_s S^s_{t-1}[0 : k])
        a^s    = softmax(beta A_s h_t)                               push, pop and, if there is one, no-op
        v^s    = sigma(D_s h_t)
        S^s[0] = a_push v^s     + a_pop S^s[1]     + a_noop S^s[0]
        S^s[i] = a_push S^s[i-1] + a_pop S^s[i+1] + a_noop S^s[i]

    Shapes: h (H,), stack (M, C, W), U (H, E), R (H, H), P (H, M k W), A (M a, H) for a actions, D (M W, H). No biases.
    depth: k, the number of rows that h reads. recurrence: `stacks` has no R, `full` has it, `none` has neither R nor P. empty:
    content of an empty cell. capacity: C rows, of which a push loses the bottom one; 0 for stacks that grow by a row with
    every token and lose nothing.
    Attributes: `beta`, initially 1, is raised during rounding (section 3.2); `hard` replaces the mixture by the most probable
    action.
    Two deviations from the paper are those of the authors' program: the no-op acts on all rows, and the argument of a sigmoid
    is clamped to [-50, 50].
    """

    U: nn.Parameter
    P: nn.Parameter
    R: nn.Parameter
    memory, positive = "stack", True
    by_hand = True  # whether `StackUnroll` computes what `step` does; not inherited, since a subclass may change `step`
    linear: ClassVar[bool] = False  # whether h is rectified and values are linear; otherwise both are sigmoids

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        stacks: int = 10,
        width: int = 1,
        depth: int = 2,
        noop: bool = False,
        recurrence: str = "stacks",
        empty: float = EMPTY,
        capacity: int = 200,
        **common: Any,
    ):
        one_of(RECURRENCES, recurrence, "recurrence")
        if capacity != 0:  # which lets stacks grow
            whole(capacity, "capacity", whole(depth, "depth", 1), 10**9)
        actions = stack.ACTIONS if switch(noop, "noop") else stack.ACTIONS[:2]
        memories: dict[str, Any] = {"memories": stacks, "width": width, "depth": depth, "empty": empty, "capacity": capacity}
        super().__init__(inputs, hidden, actions=actions, **memories, **common)
        self.stacks, self.recurrence = stacks, recurrence
        self.add("U", hidden, inputs)
        self.add("A", stacks * len(actions), hidden)
        self.add("D", stacks * width, hidden)
        if recurrence != "none":
            self.add("P", hidden, stacks * depth * width)
        if recurrence == "full":
            self.add("R", hidden, hidden)

    def write_weights(self) -> tuple[Tensor, Tensor]:
        """Return D (R, M W, H) and A (R, M a, H), with biases as a last column if there are any."""
        return self.D, self.A

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        total, rows = drive, state["stack"]
        if self.recurrence != "none":
            total = total + rows[..., : self.depth, :].flatten(-3) @ self.P.mT
        if self.recurrence == "full":
            total = total + state["h"] @ self.R.mT
        h, actions, value = self.act(total)
        if not self.capacity:
            rows = torch.cat([rows, torch.full_like(rows[..., :1, :], self.empty["stack"])], dim=-2)
        value = value.unflatten(-1, (self.stacks, self.width))
        gates = (share.flatten().unsqueeze(1) for share in actions)
        moved = stack.update(rows.flatten(0, -3), value.flatten(0, -2), *gates, empty=self.empty["stack"])
        signals = dict(zip(self.actions, actions, strict=True))
        return {"h": h, "stack": moved.unflatten(0, rows.shape[:-2])}, signals

    def unroll(self, x: Tensor, state: State | None = None, clip: float | None = None) -> tuple[Tensor, State]:
        by_steps = self.hard or stack.is_limited() or torch.is_autocast_enabled(x.device.type)
        if by_steps or not vars(type(self)).get("by_hand"):
            return super().unroll(x, state, clip)
        driven = self.drive(x)
        before = self._initial(driven, state, clip)
        rows = before["stack"].shape[-2]
        if rows < self.depth:
            raise ConfigurationError(
                f"The stacks of the state have {rows} rows; h reads {self.depth}. Take the state of `start`."
            )
        weights_read = {"none": (), "stacks": ("P",), "full": ("P", "R")}[self.recurrence]
        read = torch.cat([self.U.new_empty(*self.U.shape[:-1], 0), *map(self.get_parameter, weights_read)], -1).mT
        of_values, of_actions = self.write_weights()
        push, pop, *noop = (self.beta * of_actions.unflatten(-2, (self.stacks, -1))).unbind(-2)  # (R, M, H) each
        write = torch.cat([of_values, push, *noop, pop], -2).mT
        write, bias = write[..., : self.hidden, :], write[..., self.hidden :, :].sum(-2, keepdim=True)  # 0 without biases
        filled, outputs = 0 if state is None else rows, []
        for piece in [driven] if torch.is_grad_enabled() or clip is not None else driven.split(PIECE):
            rows = before["stack"].shape[-2]
            size, depth = rows if self.capacity else rows + len(piece), self.depth if weights_read else 0
            constants = size, depth, self.empty["stack"], min(filled, rows), clip, self.linear
            h, stacks = StackUnroll.apply(piece, read, write, bias, before["h"], before["stack"], *constants)
            before = {"h": h[-1], "stack": stacks}
            filled += len(piece)
            outputs.append(h)
        return torch.cat(outputs), before


class StackUnroll(torch.autograd.Function):
    """Map the results of `drive` (T, R, B, H) to h after every token (T, R, B, H) and the last stacks (R, B, M, C, W).

    Gradients come in a third of autograd's time on a CPU. Tensor `rows` (T + 1, C + 2, R, B, M, W) has the stacks before every
    token and after the last. Index 0 of its second dimension is for the pushed value, and the last index has the content of an
    empty row, so that rows[t, : C], rows[t, 1 : C + 1] and rows[t, 2 :] are the stacks after a push, a no-op and a pop. Each of
    these is one block of memory.

    read: weights (R, M k W, H) of the rows that h reads, followed, if h reads the previous h, by those of it (R, H, H). write:
    weights (R, H, M W + a M) of the values and of the logits of the actions push, no-op and pop, or push and pop; bias
    (R, 1, M W + a M). h, stacks: the state before the first token. Arguments of sigmoids are not clamped; at a magnitude of 50
    that changes 2e-22.

    constants: capacity C; depth k, the number of rows that h reads; content of an empty row; filled, the number of top rows of
    the initial stacks that may differ from an empty row (rows below are skipped until a push can have reached them); clip, the
    bound of the gradients of h and of the stacks at every token, or None: with it, the initial state gets no gradient; linear,
    whether h is rectified and values are linear, in place of sigmoids.
    """

    @staticmethod
    def forward(
        ctx: Any, driven: Tensor, read: Tensor, write: Tensor, bias: Tensor, h: Tensor, stacks: Tensor, *constants: Any
    ) -> tuple[Tensor, Tensor]:
        capacity, depth, empty, filled, _, linear = constants
        memories, initial_rows, width = stacks.shape[-3:]
        leading, value_count = driven.shape[:-1], memories * width  # (T, R, B), numbers that a token writes
        product = torch.addmm if driven.dim() == 3 else torch.baddbmm
        # All stacks of a window are one tensor: 0.33 ms a token, forward and back, in place of autograd's 1.13.
        rows = driven.new_empty(len(driven) + 1, capacity + 2, *leading[1:], memories, width)
        rows[0, 1 : 1 + initial_rows] = stacks.movedim(-2, 0)
        inputs = driven.new_empty(*leading, read.shape[-2])
        shares = driven.new_empty(*leading, (write.shape[-1] - value_count) // memories, memories)
        all_h = torch.empty_like(driven, memory_format=torch.contiguous_format)
        input_rows, input_h = inputs.split([value_count * depth, inputs.shape[-1] - value_count * depth], -1)
        input_rows = input_rows.unflatten(-1, (memories, depth, width)).movedim(-2, 1)
        previous_h, reads_h = h, input_h.shape[-1] > 0
        per_token = (driven, inputs, input_rows, input_h, all_h, shares, rows[:-1], rows[1:])
        for t, (drive, input_t, input_rows_t, input_h_t, h_t, shares_t, rows_t, rows_after) in enumerate(
            zip(*(values_of_tokens.unbind(0) for values_of_tokens in per_token), strict=True)
        ):
            first_empty, rows_used = min(filled + t, capacity) + 1, min(filled + t + 1, capacity)
            rows_t[first_empty : max(first_empty + 2, depth + 1)].fill_(empty)
            input_rows_t.copy_(rows_t[1 : 1 + depth])
            if reads_h:
                input_h_t.copy_(previous_h)
            previous_h = product(drive, input_t, read, out=h_t)
            h_t.relu_() if linear else h_t.sigmoid_()
            written = product(bias, h_t, write)
            rows_t[0].copy_(written[..., :value_count].unflatten(-1, (memories, width)))
            if not linear:
                rows_t[0].sigmoid_()
            torch.softmax(written[..., value_count:].unflatten(-1, (-1, memories)), -2, out=shares_t)
            push, *noop, pop = shares_t.unsqueeze(-1).unbind(-3)
            after = torch.mul(rows_t[:rows_used], push, out=rows_after[1 : rows_used + 1]).addcmul_(
                rows_t[2 : rows_used + 2], pop
            )
            for share in noop:
                after.addcmul_(rows_t[1 : rows_used + 1], share)
        rows[-1, min(filled + len(driven), capacity) + 1 :].fill_(empty)
        ctx.save_for_backward(read, write, h, stacks, inputs, all_h, shares, rows)
        ctx.constants = constants
        return all_h, rows[-1, 1:-1].movedim(0, -2).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_all_h: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        read, write, h, stacks, inputs, all_h, shares, rows = ctx.saved_tensors
        capacity, depth, _, filled, clip, linear = ctx.constants
        memories, initial_rows, width = stacks.shape[-3:]
        value_count, actions = memories * width, shares.shape[-2]
        product = torch.addmm if all_h.dim() == 3 else torch.baddbmm
        read_back, write_back = read.mT.contiguous(), write.mT.contiguous()
        pushed = rows[:-1, 0]
        slopes_of_h = (all_h > 0).to(all_h) if linear else all_h * (1 - all_h)
        # Derivatives of the top row after a token by the pushed value before its sigmoid, if it has one
        slopes_of_values = (1 if linear else pushed * (1 - pushed)) * shares[..., 0, :].unsqueeze(-1).expand_as(pushed)
        grad_totals = torch.empty_like(all_h)
        grad_written = all_h.new_empty(*all_h.shape[:-1], write.shape[-1])
        grad_values = grad_written[..., :value_count].unflatten(-1, (memories, width))
        grad_logits = grad_written[..., value_count:].unflatten(-1, (actions, memories))
        # Gradients of the stacks after and before a token, with a row of zeros above and below
        grad_after, grad_before = rows.new_zeros(2, *rows.shape[1:])
        grad_after[1:-1] = grad_last.movedim(-2, 0)
        grad_h, reads_h = torch.zeros_like(h), inputs.shape[-1] > value_count * depth
        per_token = (grad_all_h, rows[:-1], shares, slopes_of_h, slopes_of_values, grad_totals, grad_written)
        unbound = [values_of_tokens.unbind(0) for values_of_tokens in (*per_token, grad_values, grad_logits)]
        for t in reversed(range(len(all_h))):
            grad_output, rows_t, shares_t, slope_of_h, slope_of_value, *outputs = (tokens[t] for tokens in unbound)
            grad_total, grad_written_t, grad_values_t, grad_logits_t = outputs
            rows_used, rows_before = min(filled + t + 1, capacity), min(filled + t, capacity)
            if clip is not None:
                grad_after.clamp_(-clip, clip)
            gradient = grad_after[1 : rows_used + 1]
            outcomes = rows_t.unfold(0, rows_used, 1 if actions > 2 else 2)[:actions]  # (a, R, B, M, W, rows)
            weighted = (outcomes * gradient.movedim(0, -1)).sum((-2, -1)).movedim(0, -2) * shares_t
            torch.addcmul(weighted, shares_t, weighted.sum(-2, keepdim=True), value=-1, out=grad_logits_t)
            torch.mul(gradient[0], slope_of_value, out=grad_values_t)
            grad_h = product(grad_output + grad_h, grad_written_t, write_back)
            if clip is not None:
                grad_h.clamp_(-clip, clip)
            torch.mul(grad_h, slope_of_h, out=grad_total)
            grad_inputs = grad_total @ read_back
            grad_rows, grad_h = grad_inputs.split([value_count * depth, grad_inputs.shape[-1] - value_count * depth], -1)
            push, *noop, pop = shares_t.unsqueeze(-1).unbind(-3)
            before = torch.mul(grad_after[2 : rows_before + 2], push, out=grad_before[1 : rows_before + 1])
            before.addcmul_(grad_after[:rows_before], pop)
            for share in noop:
                before.addcmul_(grad_after[1 : rows_before + 1], share)
            before[:depth] += grad_rows.unflatten(-1, (memories, depth, width)).movedim(-2, 0)[: len(before)]
            if not reads_h:
                grad_h = torch.zeros_like(h)
            grad_after, grad_before = grad_before, grad_after
        grad_read, grad_write = weight_gradient(grad_totals, inputs).mT, weight_gradient(grad_written, all_h).mT
        grad_bias = grad_written.sum(-2, keepdim=True).sum(0)
        grad_stacks = grad_after[1 : 1 + initial_rows].movedim(0, -2)
        of_state = (grad_h, grad_stacks) if clip is None else (None, None)
        return grad_totals, grad_read, grad_write, grad_bias, *of_state, *[None] * len(ctx.constants)
