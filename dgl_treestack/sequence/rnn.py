"""The simple recurrent net (Elman): torch's own kernel, or a custom autograd function where gradients are clipped."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack._torch import once_differentiable
from dgl_treestack.cells import Signals, State
from dgl_treestack.plain_data import one_of
from dgl_treestack.sequence._contract import SequenceCell, weight_gradient

ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": partial(torch.clamp, min=0.0),
}
SLOPES: dict[str, Callable[[Tensor], Tensor]] = {  # derivatives in terms of the function's value
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
    "relu": lambda y: (y > 0).to(y),
}


class RNN(SequenceCell):
    """Joulin & Mikolov 2015, eq. 1, with a bias:

        h_t = f(U x_t + R h_{t-1} + b)

    Shapes: h (H,), U (H, E), R (H, H), b (H,). f is tanh, for which torch has a kernel; the paper and the
    authors' equation verifier have the `sigmoid`, Delétang et al. 2023 `relu`.
    """

    U: nn.Parameter
    R: nn.Parameter
    b: nn.Parameter

    def __init__(self, inputs: int, hidden: int, *, activation: str = "tanh", **common: Any):
        super().__init__(inputs, hidden, **common)
        self.activation, self.positive = one_of(ACTIVATIONS, activation, "activation"), activation == "sigmoid"
        self.add("U", hidden, inputs)
        self.add("R", hidden, hidden)
        self.add("b", 1, hidden)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        return {"h": ACTIVATIONS[self.activation](drive + state["h"] @ self.R.mT + self.b)}, {}

    def unroll(self, x: Tensor, state: State | None = None, clip: float | None = None) -> tuple[Tensor, State]:
        if clip is not None:
            driven = self.drive(x)
            h: Tensor = RNNWindow.apply(driven + self.b, self.R, self._initial(driven, state, clip)["h"], self.activation, clip)
            return h, {"h": h[-1]}
        if self.restarts is not None or self.activation != "tanh" or not x.is_floating_point():
            return super().unroll(x, state)
        before = self._initial(x, state, clip)["h"]
        weights = [self.U, self.R, self.b[0], torch.zeros_like(self.b[0])]
        outputs, last = torch.rnn_tanh(x, before.unsqueeze(0), weights, True, 1, 0.0, self.training, False, False)
        return outputs, {"h": last[0]}


class RNNWindow(torch.autograd.Function):
    """h_t = f(d_t + R h_{t-1}) over a window, with a backward pass that clips gradients.

    driven: d_t = U x_t + b of every token (T, R, B, H). before: h before the window, which gets no gradient.
    """

    @staticmethod
    def forward(ctx: Any, driven: Tensor, R: Tensor, before: Tensor, activation: str, clip: float) -> Tensor:
        h = torch.cat([before.unsqueeze(0), driven])
        weight = R.mT.contiguous()
        for last, row in itertools.pairwise(h.unbind(0)):
            row += last @ weight
            ACTIVATIONS[activation](row, out=row)
        ctx.save_for_backward(h, R)
        ctx.slope, ctx.clip = SLOPES[activation], clip
        return h[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        h, R = ctx.saved_tensors
        grad_driven, slopes = torch.empty_like(grad_output), ctx.slope(h[1:])
        grad_h = torch.zeros_like(h[0])
        for grad_output_t, slope_t, grad_driven_t in zip(
            *(reversed(x.unbind(0)) for x in (grad_output, slopes, grad_driven)), strict=True
        ):
            grad_h = (grad_output_t + grad_h).clamp_(-ctx.clip, ctx.clip)
            torch.mul(grad_h, slope_t, out=grad_driven_t)
            grad_h = grad_driven_t @ R
        return grad_driven, weight_gradient(grad_driven, h[:-1]), None, None, None
