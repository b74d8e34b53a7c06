"""An autograd function whose gradient has no gradient: second derivatives are an error, however they are asked for."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


def once_differentiable(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Decorate the `backward` of a `torch.autograd.Function` that saves all inputs which need a gradient, or outputs of them.

    torch's decorator of this name cuts the gradients off from the inputs. `backward` through them raises, but
    `torch.autograd.grad` of them with respect to parameters does not meet the cut: it returns what other paths contribute.
    Here the gradients depend on all that was saved, so that both raise RuntimeError.
    """

    @wraps(backward)
    def wrapped(ctx: Any, *output_gradients: Tensor | None) -> Gradients:
        with torch.no_grad():
            gradients = backward(ctx, *output_gradients)
        if not torch.is_grad_enabled():
            return gradients
        present = [gradient for gradient in gradients if gradient is not None]
        sources = [tensor for tensor in (*output_gradients, *ctx.saved_tensors) if tensor is not None and tensor.requires_grad]
        connected = iter(_FirstOrder.apply(len(present), *present, *sources))
        return tuple(None if gradient is None else next(connected) for gradient in gradients)

    return wrapped


class _FirstOrder(torch.autograd.Function):
    """(gradients, what they depend on) -> the same gradients, which cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Gradients:
        raise RuntimeError(
            "Second derivatives are not available here: this gradient is computed by a formula of its own. The engine 'topo' "
            "and the method `step` of a sequence cell consist of torch's own operations, which can be differentiated twice."
        )
