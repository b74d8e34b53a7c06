"""Gradients of weights, found for all steps of a window at once."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class LateGradients:
    """Products with weights whose gradients wait until every step has been taken back: one product per weight has them all
    then, where autograd makes one as large as the weight for every step, and adds it up."""

    def __init__(self) -> None:
        self.waiting: dict[nn.Parameter, list[tuple[Tensor, Tensor]]] = {}

    def product(self, x: Tensor, weight: nn.Parameter) -> Tensor:
        """x (..., B, in) times a weight (..., out, in), transposed."""
        found: Tensor = _Product.apply(x, weight, self)
        return found

    def settle(self) -> None:
        """Add what waits to the weights' gradients."""
        for weight, pairs in self.waiting.items():
            arriving, x = (torch.cat(column, -2) for column in zip(*pairs, strict=True))
            found = arriving.mT @ x
            weight.grad = found if weight.grad is None else weight.grad + found
        self.waiting = {}


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: nn.Parameter, late: LateGradients) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.late = late
        return x @ weight.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor, None, None]:
        x, weight = ctx.saved_tensors
        # detached: x knows the graph, which knows `late`, and a circle through autograd is never freed
        ctx.late.waiting.setdefault(weight, []).append((arriving, x.detach()))
        return arriving @ weight, None, None
