"""Initial values of layers, drawn from a generator."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Fills a weight (out, in) and a bias (out,), either of which may be absent.
Draw = Callable[[Tensor | None, Tensor | None, torch.Generator], None]


def draw_linear(weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
    """Uniform within 1 / sqrt(in): the framework's defaults, as in the authors' code. A bias alone is zero."""
    bound = 0.0 if weight is None else weight.shape[1] ** -0.5
    for tensor in (weight, bias):
        if tensor is not None:
            nn.init.uniform_(tensor, -bound, bound, generator=generator)


def draw_summed(weight: Tensor, generator: torch.Generator) -> None:
    """The sum of three numbers, uniform within 0.1: every weight of Joulin & Mikolov's program."""
    draws = torch.empty(3, *weight.shape).uniform_(-0.1, 0.1, generator=generator)
    with torch.no_grad():
        weight.copy_(draws.sum(0))


@dataclass(frozen=True)
class SecondOrder:
    """N(0, (3 gain / in)^2) for the weights of a product of two states, which grow or die with depth otherwise; no bias."""

    gain: float = 1.0

    def __call__(self, weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
        assert weight is not None and bias is None
        nn.init.normal_(weight, 0.0, 3 * self.gain / weight.shape[1], generator=generator)


@dataclass(frozen=True)
class Factor:
    """N(0, (2 gain)^2 / in) for a layer whose output is multiplied by another's; no bias."""

    gain: float = 1.0

    def __call__(self, weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
        assert weight is not None and bias is None
        nn.init.normal_(weight, 0.0, 2 * self.gain * weight.shape[1] ** -0.5, generator=generator)


@dataclass(frozen=True)
class Constants:
    """Fills a bias with given numbers, and what is left of it with one."""

    first: tuple[float, ...]
    rest: float = 0.0

    def __call__(self, weight: Tensor | None, bias: Tensor | None, generator: torch.Generator) -> None:
        assert weight is None and bias is not None
        bias.fill_(self.rest)
        bias[: len(self.first)] = torch.tensor(self.first)
