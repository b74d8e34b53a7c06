"""Multiplicative Tree-RNN: a product of two layers in place of the tensor of the second-order Tree-RNN."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.cells._contract import CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._external_stack import MayHaveStack
from dgl_treestack.plain_data import number


class MTreeRNN(MayHaveStack):
    """Mali 2021, eq. 17 as it stands, with the stack of eq. 16-19:

        x      = [h_1; ...; h_A]            z_k = h_k + P S_k[0]
        h      = tanh((W x) * (R sum_k z_k) + b)

    Shapes: h (H,), W (H, A H), R (H, H), b (H,); the stack's as in `MayHaveStack`. No bias is printed; b starts at zero.
    Initial values: W, R ~ N(0, 4 gain^2 / inputs); drawn like other layers, their product vanishes within a few levels. With
    gain 1 states do not vanish at any depth, but training stays at chance (51 % after six epochs at 1e-3); with gain 0.3 it
    learns (68 %).
    Child-sum: x = h_1 + ... + h_A, W (H, H). Dropout acts on h; the paper does not say where.
    """

    def __init__(self, *sizes: Any, gain: float = 1.0, **settings: Any):
        super().__init__(*sizes, **settings)
        draw = partial(draw_factor, gain=number(gain, "gain", 0.0))
        self.noise["h"] = (self.hidden,)
        self.add_product("x", self.joined(self.hidden), (self.hidden, 0), bias=False, draw=draw)
        self.add_product("z", (self.hidden, 0), (self.hidden, 0), bias=False, draw=draw)
        self.add_constants("bias", [0.0])

    def step(self, ops: Ops, x: Tensor, z: Tensor, children: State, noise: Noise) -> tuple[State, Signals]:
        product = ops.linear("x", x) * ops.linear("z", z.sum(1))
        return {"h": dropped(torch.tanh(product + self.constants(ops, "bias", x)[:, 0]), noise, "h")}, {}


def draw_factor(weight: Tensor | None, bias: Tensor | None, generator: torch.Generator, *, gain: float) -> None:
    """Draw from N(0, (2 gain)^2 / in), for a layer whose output is multiplied by that of another; there is no bias."""
    assert weight is not None
    nn.init.normal_(weight, 0.0, 2 * gain * weight.shape[1] ** -0.5, generator=generator)


MODELS = {
    "mtree_rnn": CellSpec(MTreeRNN, "Mali 2021", "17, no stack", "a product of input and state"),
    "mtree_rnn_stack": CellSpec(MTreeRNN, "Mali 2021", "16-19", "and a stack beside it", {"stack_size": 5}),
}
