"""Adam as in the papers, with its state by parameter name and both conventions of zeroing gradients."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dgl_treestack._torch import fused_adam
from dgl_treestack.runs.configuration import OptimizerConfig

_STATE = ("exp_avg", "exp_avg_sq", "step")


class NamedAdam:
    """Adam over the parameters of a module, which have one dtype and one device.

    With gradients `zeros`, a parameter that was ever used keeps a gradient of zeros and is updated at every step, so momentum
    and weight decay continue; with `none` it stays unchanged while its operator is absent.

    The update is the fused kernel of `torch.optim.Adam`. That class doubles the cost: at every step it checks all its options,
    and increments the step count of every parameter in an operation of its own.
    """

    def __init__(self, module: nn.Module, config: OptimizerConfig):
        self.config, self.learning_rate = config, config.learning_rate
        self.names = dict(module.named_parameters())
        self.parameters = list(self.names.values())
        self.moments: list[tuple[Tensor, Tensor] | None] = [None] * len(self.parameters)
        self.steps = torch.zeros(len(self.parameters), dtype=torch.float32, device=self.parameters[0].device)
        self.step_of = self.steps.unbind()

    def zero(self) -> None:
        """Zero all gradients, by the convention of the configuration."""
        for parameter in self.parameters:
            if self.config.gradients == "none":
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        gradients = {i: parameter.grad for i, parameter in enumerate(self.parameters) if parameter.grad is not None}
        if not gradients:
            return
        for i in gradients:
            if self.moments[i] is None:
                self.moments[i] = torch.zeros_like(self.parameters[i]), torch.zeros_like(self.parameters[i])
        first, second = zip(*(self.moments[i] for i in gradients), strict=True)
        self.steps += torch.tensor([i in gradients for i in range(len(self.parameters))]).to(self.steps)
        fused_adam(
            [self.parameters[i] for i in gradients],
            [*gradients.values()],
            first,
            second,
            [self.step_of[i] for i in gradients],
            lr=self.learning_rate,
            beta1=self.config.beta1,
            beta2=self.config.beta2,
            weight_decay=self.config.weight_decay,
            eps=self.config.epsilon,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the state: `<moment>/<parameter>` for every parameter that was ever updated."""
        return {
            f"{kind}/{name}": tensor
            for name, moments, step in zip(self.names, self.moments, self.step_of, strict=True)
            if moments is not None
            for kind, tensor in zip(_STATE, (*moments, step.clone()), strict=True)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a saved state; with gradients `zeros`, parameters that were ever updated get their gradient of zeros back."""
        for i, (name, parameter) in enumerate(self.names.items()):
            if f"step/{name}" in tensors:
                first, second, step = (tensors[f"{kind}/{name}"].clone() for kind in _STATE)
                self.moments[i] = first, second
                self.steps[i] = step
                parameter.grad = None if self.config.gradients == "none" else torch.zeros_like(parameter)
