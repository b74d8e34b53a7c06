"""The LSTM, torch's own where gradients need no clipping on their way."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence._contract import SequenceCell, Signals, State, of_weight, tokens_times


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
            below = h @ U.mT if layer else drive
            i, f, u, o = (below + state[f"h{own}"] @ R.mT + b).chunk(4, dim=-1)
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

    def window(self, driven: Tensor, state: State, clip: float) -> Tensor:
        h = driven
        for layer, own in self.names:
            U, R, b = self.weights(layer)
            below = (tokens_times(h, U) if layer else driven) + b
            h = _Window.apply(below, R, state[f"h{own}"], state[f"c{own}"], clip)
        return h


class _Window(torch.autograd.Function):
    """A layer over a window and back by hand, from what is added to its four vectors at every token (T, R, B, 4 H)."""

    @staticmethod
    def forward(ctx: Any, driven: Tensor, R: Tensor, h: Tensor, c: Tensor, clip: float) -> Tensor:
        size = h.shape[-1]
        gates, weight = driven.clone(memory_format=torch.contiguous_format), R.mT.contiguous()
        h, c = (torch.cat([x.unsqueeze(0), x.new_empty(len(driven), *x.shape)]) for x in (h, c))
        squashed = torch.empty_like(h[1:])
        i, f, u, o = (gate.unbind(0) for gate in gates.split(size, -1))
        hs, cs = h.unbind(0), c.unbind(0)
        for t, (all_four, tanh_c) in enumerate(zip(gates.unbind(0), squashed.unbind(0), strict=True)):
            all_four += hs[t] @ weight
            for gate, function in ((i, torch.sigmoid_), (f, torch.sigmoid_), (u, torch.tanh_), (o, torch.sigmoid_)):
                function(gate[t])
            torch.mul(f[t], cs[t], out=cs[t + 1]).addcmul_(i[t], u[t])
            torch.tanh(cs[t + 1], out=tanh_c)
            torch.mul(o[t], tanh_c, out=hs[t + 1])
        ctx.save_for_backward(gates, squashed, h, c, R)
        ctx.clip = clip
        return h[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        gates, squashed, h, c, R = ctx.saved_tensors
        i, f, u, o = gates.split(h.shape[-1], -1)
        to_c = o * (1 - squashed * squashed)
        # what a gradient of c is multiplied with for i, f and u, and one of h for o
        slopes = torch.stack([u * i * (1 - i), c[:-1] * f * (1 - f), i * (1 - u * u), squashed * o * (1 - o)], -2)
        gradients = torch.empty_like(slopes)
        of_h, of_c = torch.zeros_like(h[0]), torch.zeros_like(c[0])
        for own, through, slope, forget, gradient in zip(
            *(reversed(x.unbind(0)) for x in (arriving, to_c, slopes, f, gradients)), strict=True
        ):
            of_h = (own + of_h).clamp_(-ctx.clip, ctx.clip)
            of_c = of_c.addcmul(of_h, through).clamp_(-ctx.clip, ctx.clip)
            torch.mul(of_c.unsqueeze(-2), slope[..., :3, :], out=gradient[..., :3, :])
            torch.mul(of_h, slope[..., 3, :], out=gradient[..., 3, :])
            of_h, of_c = gradient.flatten(-2) @ R, of_c * forget
        gradients = gradients.flatten(-2)
        return gradients, of_weight(gradients, h[:-1]), None, None, None
