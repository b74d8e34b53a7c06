"""Second-order Tree-RNN: a tensor per operator multiplies children's states with each other."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.cells._contract import CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._external_stack import MayHaveStack
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import number, one_of, switch

FACTORS = ("sum", "bilinear")


class TreeRNNSecondOrder(MayHaveStack):
    """Mali 2021, eq. 1, read with the sum of the children as previous state, and eq. 16-19 where it has a stack:

        x      = [h_1; ...; h_A]            z = z_1 + ... + z_A        z_k = h_k + P S_k[0], without a stack h_k
        h[l]   = tanh(sum_ab W[l, a, b] z[a] x[b] + b[l])

    Shapes: h (H,), W (H, H, A H), b (H,); the stack's as in `MayHaveStack`.
    `linear=True` adds V x, with V (H, A H). `factors="bilinear"`: z_1^T W h_2 with W (H, H, H); the second factor is the input
    and thus without a stack. For more than two children the first factor is the sum of all but the last, the second the last
    one; a single child is both. External input e is added as E e. Child-sum: x = h_1 + ... + h_A, W (H, H, H).
    Initial values: W ~ N(0, (3 gain / inputs)^2) and b = 0. With gain 1 states neither vanish nor saturate with depth, but
    training stays at chance (52 to 53 % at rates of 0.1 to 1e-3); with gain 0.1 and a learning rate of 1e-4 it learns.
    Dropout acts on h; the paper does not say where.
    """

    def __init__(self, *sizes: Any, linear: bool = False, factors: str = "sum", gain: float = 1.0, **settings: Any):
        super().__init__(*sizes, **settings)
        self.factors = one_of(FACTORS, factors, "factors")
        if factors == "bilinear" and self.form == "child_sum":
            raise ConfigurationError("The setting factors='bilinear' distinguishes children; the form child_sum does not.")
        self.noise["h"] = (self.hidden,)
        x = self.joined(self.hidden)
        width = (self.hidden, 0) if factors == "bilinear" else x
        draw = partial(draw_tensor, gain=number(gain, "gain", 0.0))
        self.add_product("tensor", width, (self.hidden**2, 0), bias=False, draw=draw)
        if switch(linear, "linear"):
            self.add_product("linear", x, (self.hidden, 0), bias=False)
        elif factors == "bilinear" and self.input_size:
            self.add_product("input", (self.input_size, 0), (self.hidden, 0), bias=False)
        self.add_constants("bias", [0.0])

    def step(self, ops: Ops, x: Tensor, z: Tensor, children: State, noise: Noise) -> tuple[State, Signals]:
        if self.factors == "sum":
            first, second = z.sum(1), x
        else:
            first, second = z[:, :-1].sum(1) if z.shape[1] > 1 else z[:, 0], children["h"][:, -1]
        matrix = ops.linear("tensor", second).unflatten(1, (self.hidden, self.hidden))
        product = (matrix * first.unsqueeze(1)).sum(2)
        first_order = self.constants(ops, "bias", x)[:, 0]
        if "linear" in self.products:
            first_order = first_order + ops.linear("linear", x)
        if "input" in self.products:
            first_order = first_order + ops.linear("input", x[:, -self.input_size :])
        return {"h": dropped(torch.tanh(product + first_order), noise, "h")}, {}


def draw_tensor(weight: Tensor | None, bias: Tensor | None, generator: torch.Generator, *, gain: float) -> None:
    """Draw from N(0, (3 gain / in)^2), for the weight of a product of two states; there is no bias."""
    assert weight is not None
    # With a larger deviation states grow with depth, with a smaller one they vanish.
    nn.init.normal_(weight, 0.0, 3 * gain / weight.shape[1], generator=generator)


MODELS = {
    "tree_rnn_second_order": CellSpec(TreeRNNSecondOrder, "Mali 2021", "1", "a tensor of weights per operator"),
    "tree_rnn_second_order_linear": CellSpec(TreeRNNSecondOrder, "Mali 2021", "1", "and a first-order term", {"linear": True}),
    "tree_rnn_second_order_bilinear": CellSpec(
        TreeRNNSecondOrder, "Mali 2021", "1", "left child times right child", {"factors": "bilinear"}
    ),
    "tree_rnn_second_order_stack": CellSpec(
        TreeRNNSecondOrder, "Mali 2021", "1, 16-19", "a stack beside it", {"stack_size": 5}
    ),
}
