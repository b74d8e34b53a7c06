"""Initial values of layers, drawn from a generator."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Fills a weight (out, in) and a bias (out,), either of which may be None.
Draw = Callable[[Tensor | None, Tensor | None, torch.Generator], None]


def draw_linear(weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
    """Draw from U(-1 / sqrt(in), 1 / sqrt(in)), as torch and the authors' code do. A bias without a weight is zero."""
    bound = 0.0 if weight is None else weight.shape[1] ** -0.5
    for tensor in (weight, bias):
        if tensor is not None:
            nn.init.uniform_(tensor, -bound, bound, generator=generator)


def draw_summed(weight: Tensor, generator: torch.Generator) -> None:
    """Fill a weight with sums of three draws from U(-0.1, 0.1), as Joulin & Mikolov's program does."""
    draws = torch.empty(3, *weight.shape).uniform_(-0.1, 0.1, generator=generator)
    with torch.no_grad():
        weight.copy_(draws.sum(0))


@dataclass(frozen=True)
class SecondOrder:
    """Draws from N(0, (3 gain / in)^2), for the weight of a product of two states; there is no bias.

    With a larger deviation states grow with depth, with a smaller one they vanish.
    """

    gain: float = 1.0

    def __call__(self, weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
        assert weight is not None and bias is None
        nn.init.normal_(weight, 0.0, 3 * self.gain / weight.shape[1], generator=generator)


@dataclass(frozen=True)
class Factor:
    """Draws from N(0, (2 gain)^2 / in), for a layer whose output is multiplied by that of another; there is no bias."""

    gain: float = 1.0

    def __call__(self, weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
        assert weight is not None and bias is None
        nn.init.normal_(weight, 0.0, 2 * self.gain * weight.shape[1] ** -0.5, generator=generator)


@dataclass(frozen=True)
class Constants:
    """Sets the first entries of a bias to `first` and all further ones to `rest`; there is no weight."""

    first: tuple[float, ...]
    rest: float = 0.0

    def __call__(self, weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
        assert weight is None and bias is not None
        bias.fill_(self.rest)
        bias[: len(self.first)] = torch.tensor(self.first)
