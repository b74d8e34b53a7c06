"""The LSTM, torch's own."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.sequence._contract import SequenceCell, Signals, State


class LSTM(SequenceCell):
    """Hochreiter & Schmidhuber 1997 with forget gates, as torch has it:

        i, f, u, o = U x_t + R h_{t-1} + b                  four vectors, in this order
        c_t = sigma(f) * c_{t-1} + sigma(i) * tanh(u)
        h_t = sigma(o) * tanh(c_t)

    Shapes: h, c (H,), U (4 H, E), R (4 H, H), b (4 H,).
    """

    U: nn.Parameter
    R: nn.Parameter
    b: nn.Parameter

    def __init__(self, inputs: int, hidden: int, **common: Any):
        super().__init__(inputs, hidden, **common)
        self.fields["c"] = (hidden,)
        self.signals = dict.fromkeys(("input", "forget", "output"), (hidden,))
        self.add("U", 4 * hidden, inputs)
        self.add("R", 4 * hidden, hidden)
        self.add("b", 1, 4 * hidden)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        i, f, u, o = (drive + state["h"] @ self.R.mT + self.b).chunk(4, dim=-1)
        i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
        c = f * state["c"] + i * torch.tanh(u)
        return {"h": o * torch.tanh(c), "c": c}, {"input": i, "forget": f, "output": o}

    def unroll(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        if self.restarts is not None or not x.is_floating_point():
            return super().unroll(x, state)
        before = self.start(x.shape[1]) if state is None else state
        weights = [self.U, self.R, self.b[0], torch.zeros_like(self.b[0])]
        pair = (before["h"].unsqueeze(0), before["c"].unsqueeze(0))
        found, h, c = torch.lstm(x, pair, weights, True, 1, 0.0, self.training, False, False)
        return found, {"h": h[0], "c": c[0]}
