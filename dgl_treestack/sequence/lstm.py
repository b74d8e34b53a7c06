"""The LSTM: torch's own kernel, or a custom autograd function where gradients are clipped."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack._torch import once_differentiable
from dgl_treestack.cells import Signals, State
from dgl_treestack.plain_data import whole
from dgl_treestack.sequence._contract import SequenceCell, weight_gradient


class LSTM(SequenceCell):
    """Hochreiter & Schmidhuber 1997 with forget gates, as torch has it:

        i, f, u, o = U x_t + R h_{t-1} + b                  four vectors, in this order
        c_t = sigma(f) * c_{t-1} + sigma(i) * tanh(u)
        h_t = sigma(o) * tanh(c_t)

    Shapes: h, c (H,), U (4 H, E), R (4 H, H), b (4 H,). With several layers, x_t of a layer is h_t of the layer below. The
    second layer has weights U2, R2, b2, and so on; the last layer has the fields h and c, the others h1, c1, h2, c2 and so on.
    Signals are those of the last layer.
    """

    U: nn.Parameter
    R: nn.Parameter
    b: nn.Parameter

    def __init__(self, inputs: int, hidden: int, *, layers: int = 1, **common: Any):
        super().__init__(inputs, hidden, **common)
        whole(layers, "layers", 1)
        # For every layer, the suffix of its weights and that of its fields.
        self.suffixes = [
            ("" if layer == 1 else f"{layer}", "" if layer == layers else f"{layer}") for layer in range(1, layers + 1)
        ]
        self.fields |= {f"{field}{field_suffix}": (hidden,) for _, field_suffix in self.suffixes for field in "hc"}
        self.signals = dict.fromkeys(("input", "forget", "output"), (hidden,))
        for weight_suffix, _ in self.suffixes:
            self.add(f"U{weight_suffix}", 4 * hidden, hidden if weight_suffix else inputs)
            self.add(f"R{weight_suffix}", 4 * hidden, hidden)
            self.add(f"b{weight_suffix}", 1, 4 * hidden)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        after: State = {}
        h = drive
        for weight_suffix, field_suffix in self.suffixes:
            U, R, b = (self.get_parameter(f"{name}{weight_suffix}") for name in "URb")
            driven = h @ U.mT if weight_suffix else drive
            i, f, u, o = (driven + state[f"h{field_suffix}"] @ R.mT + b).chunk(4, dim=-1)
            i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
            c = f * state[f"c{field_suffix}"] + i * torch.tanh(u)
            h = o * torch.tanh(c)
            after |= {f"h{field_suffix}": h, f"c{field_suffix}": c}
        return after, {"input": i, "forget": f, "output": o}

    def unroll(self, x: Tensor, state: State | None = None, clip: float | None = None) -> tuple[Tensor, State]:
        last: State = {}
        if clip is not None:  # no gradient reaches c of the last state
            h = driven = self.drive(x)
            before = self._initial(driven, state, clip)
            for weight_suffix, field_suffix in self.suffixes:
                U, R, b = (self.get_parameter(f"{name}{weight_suffix}") for name in "URb")
                if weight_suffix:  # U h of all tokens (T, R, B, H) as one product
                    products = h.movedim(0, -3).flatten(-3, -2) @ U.mT
                    driven = products.unflatten(-2, (len(h), h.shape[-2])).movedim(-3, 0)
                # 50 tokens, four restarts of 200 units: 28.3 ms, with autograd and hooks 52.7.
                h, c = LSTMWindow.apply(driven + b, R, before[f"h{field_suffix}"], before[f"c{field_suffix}"], clip)
                last |= {f"h{field_suffix}": h[-1], f"c{field_suffix}": c}
            return h, last
        if self.restarts is not None or not x.is_floating_point():  # torch's kernel takes neither restarts nor symbols
            return super().unroll(x, state)
        before = self._initial(x, state, clip)
        weights = []
        for weight_suffix, _ in self.suffixes:
            U, R, b = (self.get_parameter(f"{name}{weight_suffix}") for name in "URb")
            weights += [U, R, b[0], torch.zeros_like(b[0])]
        h_and_c = tuple(torch.stack([before[f"{field}{field_suffix}"] for _, field_suffix in self.suffixes]) for field in "hc")
        outputs, *after = torch.lstm(x, h_and_c, weights, True, len(self.suffixes), 0.0, self.training, False, False)
        for layer, (_, field_suffix) in enumerate(self.suffixes):
            last |= {f"h{field_suffix}": after[0][layer], f"c{field_suffix}": after[1][layer]}
        return outputs, last


class LSTMWindow(torch.autograd.Function):
    """A layer over a window, with a backward pass that clips gradients.

    driven: U x_t + b of every token (T, R, B, 4 H). h, c: the state before the window, which gets no gradient.
    """

    @staticmethod
    def forward(ctx: Any, driven: Tensor, R: Tensor, h: Tensor, c: Tensor, clip: float) -> tuple[Tensor, Tensor]:
        size = h.shape[-1]
        gates, weight = driven.clone(memory_format=torch.contiguous_format), R.mT.contiguous()
        h, c = (torch.cat([x.unsqueeze(0), x.new_empty(len(driven), *x.shape)]) for x in (h, c))
        all_tanh_c = torch.empty_like(h[1:])
        i, f, u, o = (gate.unbind(0) for gate in gates.split(size, -1))
        hs, cs = h.unbind(0), c.unbind(0)
        for t, (all_four, tanh_c) in enumerate(zip(gates.unbind(0), all_tanh_c.unbind(0), strict=True)):
            all_four += hs[t] @ weight
            for gate, function in ((i, torch.sigmoid_), (f, torch.sigmoid_), (u, torch.tanh_), (o, torch.sigmoid_)):
                function(gate[t])
            torch.mul(f[t], cs[t], out=cs[t + 1]).addcmul_(i[t], u[t])
            torch.tanh(cs[t + 1], out=tanh_c)
            torch.mul(o[t], tanh_c, out=hs[t + 1])
        ctx.save_for_backward(gates, all_tanh_c, h, c, R)
        ctx.clip = clip
        last_c = c[-1].clone()
        ctx.mark_non_differentiable(last_c)
        return h[1:], last_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gates, tanh_c, h, c, R = ctx.saved_tensors
        i, f, u, o = gates.split(h.shape[-1], -1)
        dh_dc = o * (1 - tanh_c * tanh_c)
        # Derivatives of c by the preactivations of i, f and u, and of h by that of o
        slopes = torch.stack([u * i * (1 - i), c[:-1] * f * (1 - f), i * (1 - u * u), tanh_c * o * (1 - o)], -2)
        grad_driven = torch.empty_like(slopes)
        grad_h, grad_c = torch.zeros_like(h[0]), torch.zeros_like(c[0])
        for grad_output_t, dh_dc_t, slopes_t, f_t, grad_driven_t in zip(
            *(reversed(x.unbind(0)) for x in (grad_output, dh_dc, slopes, f, grad_driven)), strict=True
        ):
            grad_h = (grad_output_t + grad_h).clamp_(-ctx.clip, ctx.clip)
            grad_c = grad_c.addcmul(grad_h, dh_dc_t).clamp_(-ctx.clip, ctx.clip)
            torch.mul(grad_c.unsqueeze(-2), slopes_t[..., :3, :], out=grad_driven_t[..., :3, :])
            torch.mul(grad_h, slopes_t[..., 3, :], out=grad_driven_t[..., 3, :])
            grad_h, grad_c = grad_driven_t.flatten(-2) @ R, grad_c * f_t
        grad_driven = grad_driven.flatten(-2)
        return grad_driven, weight_gradient(grad_driven, h[:-1]), None, None, None
