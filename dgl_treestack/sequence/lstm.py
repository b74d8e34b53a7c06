"""The LSTM, torch's own."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence._contract import SequenceCell, Signals, State


class LSTM(SequenceCell):
    """Hochreiter & Schmidhuber 1997 with forget gates, as torch has it:

        i, f, u, o = U x_t + R h_{t-1} + b                  four vectors, in this order
        c_t = sigma(f) * c_{t-1} + sigma(i) * tanh(u)
        h_t = sigma(o) * tanh(c_t)

    Shapes: h, c (H,), U (4 H, E), R (4 H, H), b (4 H,). Of several layers, x_t of the second is h_t of the first, and so on:
    weights U2, R2, b2 and fields h2, c2; the field h is the last layer's, h1 then the first one's. Signals are the last's.
    """

    U: nn.Parameter
    R: nn.Parameter
    b: nn.Parameter

    def __init__(self, inputs: int, hidden: int, *, layers: int = 1, **common: Any):
        super().__init__(inputs, hidden, **common)
        if layers < 1:
            raise ConfigurationError(f"'layers' is {layers}; it must be at least 1.")
        self.names = [
            ("" if layer == 1 else f"{layer}", "" if layer == layers else f"{layer}") for layer in range(1, layers + 1)
        ]
        self.fields |= {f"{field}{own}": (hidden,) for _, own in self.names for field in "hc"}
        self.signals = dict.fromkeys(("input", "forget", "output"), (hidden,))
        for layer, _ in self.names:
            self.add(f"U{layer}", 4 * hidden, hidden if layer else inputs)
            self.add(f"R{layer}", 4 * hidden, hidden)
            self.add(f"b{layer}", 1, 4 * hidden)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        after: State = {}
        h = drive
        for layer, own in self.names:
            U, R, b = self.weights(layer)
            below = self.times(h, U) if layer else drive
            i, f, u, o = (below + self.times(state[f"h{own}"], R) + b).chunk(4, dim=-1)
            i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
            c = f * state[f"c{own}"] + i * torch.tanh(u)
            h = o * torch.tanh(c)
            after |= {f"h{own}": h, f"c{own}": c}
        return after, {"input": i, "forget": f, "output": o}

    def weights(self, layer: str) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
        """U, R and b of a layer, by the name of its weights."""
        U, R, b = (self.get_parameter(f"{name}{layer}") for name in "URb")
        return U, R, b

    def unroll(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        if self.restarts is not None or not x.is_floating_point():
            return super().unroll(x, state)
        before = self.start(x.shape[1]) if state is None else state
        weights = []
        for layer, _ in self.names:
            U, R, b = self.weights(layer)
            weights += [U, R, b[0], torch.zeros_like(b[0])]
        pair = tuple(torch.stack([before[f"{field}{own}"] for _, own in self.names]) for field in "hc")
        found, *after = torch.lstm(x, pair, weights, True, len(self.names), 0.0, self.training, False, False)
        last = {f"{field}{own}": after[i][n] for i, field in enumerate("hc") for n, (_, own) in enumerate(self.names)}
        return found, last
