"""Stack RNN over vectors: a rectified recurrent net with one stack of vectors, as Delétang et al. 2023 have it."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.cells import Signals, State
from dgl_treestack.cells.memory import stack
from dgl_treestack.plain_data import whole
from dgl_treestack.sequence._contract import SequenceCell


class VectorStackRNN(SequenceCell):
    """The 'Stack-RNN' of Delétang et al. 2023, after their program (the paper cites Joulin & Mikolov 2015):

        h_t  = max(0, U x_t + R h_{t-1} + P S_{t-1}[0] + b)
        a    = softmax(A h_t + c)                                push, pop and no-op
        v    = D h_t + d
        S[0] = a_push v      + a_pop S[1]   + a_noop S[0]
        S[i] = a_push S[i-1] + a_pop S[i+1] + a_noop S[i]

    Shapes: h (H,), stack (rows, W), U (H, E), R (H, H), P (H, W), A (3, H), D (W, H), b (H,), c (3,), d (W,).
    It differs from `StackRNN`: one stack whose cells are vectors, where that has several of numbers; pushed values are linear,
    not sigmoids; h is rectified, not a sigmoid; h reads the top row only, not two; there are biases and R; an empty row is 0,
    not -1. Deviation from their program: the stack grows by a row with every token, so that nothing is lost; theirs has as many
    rows as its setting says, 30 by default; the paper had 128 in training and more in tests.
    """

    U: nn.Parameter
    R: nn.Parameter
    P: nn.Parameter
    A: nn.Parameter
    D: nn.Parameter
    b: nn.Parameter
    c: nn.Parameter
    d: nn.Parameter

    def __init__(self, inputs: int, hidden: int, *, width: int = 8, **common: Any):
        super().__init__(inputs, hidden, **common)
        actions = len(stack.ACTIONS)
        self.fields["stack"] = (1, whole(width, "width", 1))
        self.signals = dict.fromkeys(stack.ACTIONS, (1,))
        shapes = {
            "U": (hidden, inputs),
            "R": (hidden, hidden),
            "P": (hidden, width),
            "A": (actions, hidden),
            "D": (width, hidden),
        }
        for name, shape in {**shapes, "b": (1, hidden), "c": (1, actions), "d": (1, width)}.items():
            self.add(name, *shape)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        rows = state["stack"]
        h = torch.relu(drive + state["h"] @ self.R.mT + rows[..., 0, :] @ self.P.mT + self.b)
        actions = torch.softmax(h @ self.A.mT + self.c, dim=-1).split(1, dim=-1)
        value = h @ self.D.mT + self.d
        rows = torch.cat([rows, torch.zeros_like(rows[..., :1, :])], dim=-2)
        gates = (share.flatten(0, -2) for share in actions)
        moved = stack.update(rows.flatten(0, -3), value.flatten(0, -2), *gates)
        return {"h": h, "stack": moved.unflatten(0, rows.shape[:-2])}, dict(zip(stack.ACTIONS, actions, strict=True))
