"""Stack RNN: a recurrent net with stacks, each updated by a mixture of push, pop and no-op."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.cells.memory import stack
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence._acting import EMPTY, ActingCell
from dgl_treestack.sequence._contract import Signals, State
from dgl_treestack.sequence._stack_unroll import StackUnroll, Unrolling
from dgl_treestack.settings import one_of, switch, whole

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
        if whole(capacity, "capacity", 0, 10**9) and capacity < whole(depth, "depth", 1):
            raise ConfigurationError(f"'capacity' is {capacity}; at least {depth} rows are read, 0 lets stacks grow.")
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

    def unroll(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        if not self._goes_by_hand(x):
            return super().unroll(x, state)
        driven = self.drive(x)
        before = self.start(driven.shape[-2]) if state is None else state
        filled = 0 if state is None else before["stack"].shape[-2]
        outputs = []
        for piece in [driven] if torch.is_grad_enabled() else driven.split(PIECE):
            h, before = self._unroll(piece, before, filled, None)
            filled += len(piece)
            outputs.append(h)
        return torch.cat(outputs), before

    def window(self, driven: Tensor, state: State, clip: float) -> Tensor:
        if not self._goes_by_hand(driven):
            return super().window(driven, state, clip)
        return self._unroll(driven, state, state["stack"].shape[-2], clip)[0]

    def _goes_by_hand(self, x: Tensor) -> bool:
        """Return whether `StackUnroll` computes what `step` does. A subclass may have another step or start."""
        return type(self) is StackRNN and not (self.hard or stack.is_limited() or torch.is_autocast_enabled(x.device.type))

    def _unroll(self, driven: Tensor, before: State, filled: int, clip: float | None) -> tuple[Tensor, State]:
        """Run over the results of `drive` with `StackUnroll`: h after every token, and the last state."""
        rows = before["stack"].shape[-2]
        if rows < self.depth:
            raise ConfigurationError(
                f"The stacks of the state have {rows} rows; h reads {self.depth}. Take the state of `start`."
            )
        weights_read = {"none": (), "stacks": ("P",), "full": ("P", "R")}[self.recurrence]
        read = torch.cat([self.U.new_empty(*self.U.shape[:-1], 0), *map(self.get_parameter, weights_read)], -1).mT
        logits = self.beta * self.A.unflatten(-2, (self.stacks, -1)).transpose(-3, -2)  # (R, a, M, H)
        push, pop, *noop = logits.unbind(-3)
        write = torch.cat([self.D, push, *noop, pop], -2).mT
        constants = Unrolling(
            capacity=rows if self.capacity else rows + len(driven),
            depth=self.depth if weights_read else 0,
            empty=self.empty["stack"],
            filled=min(filled, rows),
            clip=clip,
        )
        h, last = StackUnroll.apply(driven, read, write, before["h"], before["stack"], constants)
        return h, {"h": h[-1], "stack": last}
