"""Muon: momentum whose matrices are orthogonalised, for the matrices of a model; Adam for its other parameters."""

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from dgl_treestack import _torch
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.adam import NamedAdam

MOMENTUM = 0.95
NARROWEST = 8  # smallest side of a matrix; narrower ones are output layers
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
EPSILON = 1e-7
SIZE = 0.2  # root mean square of an update, as Adam's: both take the same learning rate


class NamedMuon(NamedAdam):
    """Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) with Adam's learning rate (Liu et al. 2025,
    https://arxiv.org/abs/2502.16982, eq. 4). For every matrix W (m, n) with gradient G,

        B <- 0.95 B + 0.05 G
        W <- W - 0.2 sqrt(max(m, n)) lr orthogonalise(0.05 G + 0.95 B) - lr weight_decay W

    Matrices are parameters of two dimensions, both at least 8, but for those of the leaf encoder. Other parameters are Adam's.
    Which parameters are updated when operators are absent is as in `NamedAdam`.

    `torch.optim.Muon` updates one matrix after the other: it took 72 ms for the 89 matrices of a Tree-Slots, where matrices of
    one shape at once take 7 (a whole step of training: 65).
    """

    def __init__(self, module: nn.Module, config: OptimizerConfig, undecayed: Collection[str] = ()):
        super().__init__(module, config, undecayed)
        self.momenta: dict[int, Tensor] = {}
        self.matrices = [
            i
            for i, (name, parameter) in enumerate(self.parameter_by_name.items())
            if parameter.dim() == 2 and min(parameter.shape) >= NARROWEST and not name.startswith("cell.leaves.")
        ]
        self.others = [i for i in range(len(self.parameters)) if i not in set(self.matrices)]

    @torch.no_grad()
    def step(self, rate: float | None = None) -> None:
        rate = self.learning_rate if rate is None else rate
        indices_of_shape: dict[torch.Size, list[int]] = {}
        for i in self.matrices:
            if self.parameters[i].grad is not None:
                indices_of_shape.setdefault(self.parameters[i].shape, []).append(i)
                if i not in self.momenta:
                    self.momenta[i] = torch.zeros_like(self.parameters[i])
        for shape, indices in indices_of_shape.items():
            matrices: list[Tensor] = [self.parameters[i] for i in indices]
            gradients = [gradient for matrix in matrices if (gradient := matrix.grad) is not None]
            momenta = [self.momenta[i] for i in indices]
            _torch.foreach_("lerp_", momenta, gradients, 1 - MOMENTUM)
            update = orthogonalise(torch.stack(gradients).lerp(torch.stack(momenta), MOMENTUM))
            _torch.foreach_("mul_", matrices, [1 - rate * self.decay_of[i] for i in indices])
            _torch.foreach_("sub_", matrices, list((SIZE * math.sqrt(max(shape)) * rate * update).unbind()))
        self.update(self.others, rate)

    def tensors(self) -> dict[str, Tensor]:
        names = list(self.parameter_by_name)
        return super().tensors() | {f"momentum/{names[i]}": momentum for i, momentum in self.momenta.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        super().restore(tensors)
        names = list(self.parameter_by_name)
        for i in self.matrices:
            if f"momentum/{names[i]}" in tensors:
                self.momenta[i] = tensors[f"momentum/{names[i]}"].clone()
                self.parameters[i].grad = None if self.config.gradients == "none" else torch.zeros_like(self.parameters[i])


def orthogonalise(matrices: Tensor) -> Tensor:
    """Return matrices (k, m, n) with their singular values moved towards 1, into 0.68 to 1.13 unless they were tiny.

    Five iterations of a polynomial of degree 5 in the matrix (Newton and Schulz).
    """
    a, b, c = COEFFICIENTS
    x = matrices / matrices.flatten(1).norm(dim=1).clamp(min=EPSILON)[:, None, None]
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if is_tall else x
