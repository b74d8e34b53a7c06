"""The simple recurrent net (Elman)."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.sequence._contract import SequenceCell, Signals, State

ACTIVATIONS = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}


class RNN(SequenceCell):
    """Joulin & Mikolov 2015, eq. 1, with a bias:

        h_t = f(U x_t + R h_{t-1} + b)

    Shapes: h (H,), U (H, E), R (H, H), b (H,). f is tanh, for which torch has a kernel; the paper and the
    authors' equation verifier have the `sigmoid`.
    """

    U: nn.Parameter
    R: nn.Parameter
    b: nn.Parameter

    def __init__(self, inputs: int, hidden: int, *, activation: str = "tanh", **common: Any):
        super().__init__(inputs, hidden, **common)
        if activation not in ACTIVATIONS:
            raise ConfigurationError(unknown("activation", activation, ACTIVATIONS))
        self.activation, self.positive = activation, activation == "sigmoid"
        self.add("U", hidden, inputs)
        self.add("R", hidden, hidden)
        self.add("b", 1, hidden)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        return {"h": ACTIVATIONS[self.activation](drive + self.times(state["h"], self.R) + self.b)}, {}

    def unroll(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        if self.restarts is not None or self.activation != "tanh" or not x.is_floating_point():
            return super().unroll(x, state)
        h = (self.start(x.shape[1]) if state is None else state)["h"]
        weights = [self.U, self.R, self.b[0], torch.zeros_like(self.b[0])]
        found, last = torch.rnn_tanh(x, h.unsqueeze(0), weights, True, 1, 0.0, self.training, False, False)
        return found, {"h": last[0]}
