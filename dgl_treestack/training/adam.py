"""Adam over named parameters, with gradients of absent operators as None or as zeros."""

from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor, nn

from dgl_treestack._torch import fused_adam
from dgl_treestack.runs.configuration import OptimizerConfig

_STATE = ("exp_avg", "exp_avg_sq", "step")


class NamedAdam:
    """Adam as in the papers, over the parameters of a module, which have one dtype and one device.

    With gradients `zeros`, a parameter that was ever used keeps a gradient of zeros and is updated at every step, so momentum
    and weight decay continue; with `none` it stays unchanged while its operator is absent. undecayed: names of parameters
    without weight decay.

    The update is the fused kernel of `torch.optim.Adam`. That class doubles the cost: at every step it checks all its options,
    and increments the step count of every parameter in a separate operation.
    """

    def __init__(self, module: nn.Module, config: OptimizerConfig, undecayed: Collection[str] = ()):
        self.config, self.learning_rate = config, config.learning_rate
        self.parameter_by_name = dict(module.named_parameters())
        self.parameters = list(self.parameter_by_name.values())
        self.decay_of = [0.0 if name in undecayed else config.weight_decay for name in self.parameter_by_name]
        self.moments: list[tuple[Tensor, Tensor] | None] = [None] * len(self.parameters)
        self.steps = torch.zeros(len(self.parameters), dtype=torch.float32, device=self.parameters[0].device)
        self.step_of = self.steps.unbind()

    def zero(self) -> None:
        """Zero all gradients, or set them to None, as configured."""
        for parameter in self.parameters:
            if self.config.gradients == "none":
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self, rate: float | None = None) -> None:
        """Update every parameter that has a gradient. rate: the learning rate, by default `learning_rate`."""
        self.update(range(len(self.parameters)), self.learning_rate if rate is None else rate)

    def update(self, indices: Iterable[int], rate: float) -> None:
        """Update those of some parameters that have a gradient, by Adam."""
        gradients = {i: gradient for i in indices if (gradient := self.parameters[i].grad) is not None}
        if not gradients:
            return
        for i in gradients:
            if self.moments[i] is None:
                self.moments[i] = torch.zeros_like(self.parameters[i]), torch.zeros_like(self.parameters[i])
        self.steps += torch.tensor([i in gradients for i in range(len(self.parameters))]).to(self.steps)
        for decay in {self.decay_of[i] for i in gradients}:
            group = [i for i in gradients if self.decay_of[i] == decay]
            first, second = zip(*(self.moments[i] for i in group), strict=True)
            fused_adam(
                [self.parameters[i] for i in group],
                [gradients[i] for i in group],
                first,
                second,
                [self.step_of[i] for i in group],
                lr=rate,
                beta1=self.config.beta1,
                beta2=self.config.beta2,
                weight_decay=decay,
                eps=self.config.epsilon,
            )

    def tensors(self) -> dict[str, Tensor]:
        """Return the state: `<moment>/<parameter>` for every parameter that was ever updated."""
        return {
            f"{kind}/{name}": tensor
            for name, moments, step in zip(self.parameter_by_name, self.moments, self.step_of, strict=True)
            if moments is not None
            for kind, tensor in zip(_STATE, (*moments, step.clone()), strict=True)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a saved state; with gradients `zeros`, parameters that were ever updated get a gradient of zeros."""
        for i, (name, parameter) in enumerate(self.parameter_by_name.items()):
            if f"step/{name}" in tensors:
                first, second, step = (tensors[f"{kind}/{name}"].clone() for kind in _STATE)
                self.moments[i] = first, second
                self.steps[i] = step
                parameter.grad = None if self.config.gradients == "none" else torch.zeros_like(parameter)
