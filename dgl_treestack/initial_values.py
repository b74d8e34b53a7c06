"""Initial values of layers, drawn from a generator: the framework's defaults, as in the authors' code."""

import torch
from torch import Tensor, nn


def draw_linear(weight: Tensor, bias: Tensor | None, generator: torch.Generator) -> None:
    """Fill a layer's weight (out, in) and bias uniformly within 1 / sqrt(in)."""
    bound = weight.shape[1] ** -0.5
    nn.init.uniform_(weight, -bound, bound, generator=generator)
    if bias is not None:
        nn.init.uniform_(bias, -bound, bound, generator=generator)
