"""Adam with less overhead than torch's; and Muon, momentum whose matrices are orthogonalised, with Adam for the rest."""

import math
from typing import Any

import torch
from torch import Tensor, optim

from dgl_treestack._torch import foreach_, fused_adam

MOMENTUM = 0.95
NARROWEST = 8  # smallest side of a matrix; narrower ones are output layers
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
EPSILON = 1e-7
SIZE = 0.2  # root mean square of an update, as Adam's: both take the same learning rate


# SOAP was not better beyond noise, after 4 epochs with 124,320 equations at a rate of 2e-2 on validation and
# `paper-deeper`: 98.2 and 94.5 %, Muon 98.1 and 94.3. torch does not have it, and it needs more state.
class Adam(optim.Optimizer):
    """Adam as in the papers, with weight decay added to the gradient, of parameters of one dtype on one device.

    The update is the fused kernel of `torch.optim.Adam`. That class takes 1.5 to 2.7 times as long, because it checks all its
    options at every step.
    """

    def __init__(self, parameters: Any, *, lr: float, betas: tuple[float, float], eps: float, weight_decay: float = 0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            self.update(group, group["params"])

    def update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        """Update those of some parameters of a group that have a gradient, by Adam."""
        used = [(parameter, parameter.grad, self.state[parameter]) for parameter in parameters if parameter.grad is not None]
        if not used:
            return
        for parameter, _, state in used:
            if not state:
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
        rows, gradients, states = map(list, zip(*used, strict=True))
        first, second, steps = ([state[kind] for state in states] for kind in ("exp_avg", "exp_avg_sq", "step"))
        (beta1, beta2), settings = group["betas"], {"weight_decay": group["weight_decay"], "eps": group["eps"]}
        fused_adam(rows, gradients, first, second, steps, lr=group["lr"], beta1=beta1, beta2=beta2, **settings)


class Muon(Adam):
    """Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) with Adam's learning rate (Liu et al. 2025,
    https://arxiv.org/abs/2502.16982, eq. 4). For every matrix W (m, n) with gradient G,

        B <- 0.95 B + 0.05 G
        W <- W - 0.2 sqrt(max(m, n)) lr orthogonalise(0.05 G + 0.95 B) - lr weight_decay W

    Matrices are parameters of two dimensions, both at least 8, of groups without `tables`. Other parameters are Adam's.

    `torch.optim.Muon` updates one matrix after the other: it took 72 ms for the 89 matrices of a Tree-Slots, where matrices of
    one shape at once take 7 (a whole step of training: 65).
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            matrices_of_shape: dict[torch.Size, list[Tensor]] = {}
            others: list[Tensor] = []
            for parameter in group["params"]:
                if group.get("tables") or not is_matrix(parameter):
                    others.append(parameter)
                elif parameter.grad is not None:
                    matrices_of_shape.setdefault(parameter.shape, []).append(parameter)
                    if not self.state[parameter]:
                        self.state[parameter]["momentum"] = torch.zeros_like(parameter)
            for shape, matrices in matrices_of_shape.items():
                gradients = [gradient for matrix in matrices if (gradient := matrix.grad) is not None]
                momenta = [self.state[matrix]["momentum"] for matrix in matrices]
                foreach_("lerp_", momenta, gradients, 1 - MOMENTUM)
                update = orthogonalise(torch.stack(gradients).lerp(torch.stack(momenta), MOMENTUM))
                foreach_("mul_", matrices, [1 - group["lr"] * group["weight_decay"]] * len(matrices))
                foreach_("sub_", matrices, list((SIZE * math.sqrt(max(shape)) * group["lr"] * update).unbind()))
            self.update(group, others)


def is_matrix(parameter: Tensor) -> bool:
    """Whether Muon updates a parameter, unless it is a table."""
    return parameter.dim() == 2 and min(parameter.shape) >= NARROWEST


def orthogonalise(matrices: Tensor) -> Tensor:
    """Return matrices (k, m, n) with their singular values moved towards 1, into 0.68 to 1.13 unless they were tiny.

    Five iterations of a polynomial of degree 5 in the matrix (Newton and Schulz).
    """
    a, b, c = COEFFICIENTS
    x = matrices / matrices.flatten(1).norm(dim=1).clamp(min=EPSILON)[:, None, None]
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x
    for _ in range(ITERATIONS):  # in float32; torch's Muon rounds to bfloat16
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if is_tall else x
