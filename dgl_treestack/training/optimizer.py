"""Adam as the papers use it, with its state by parameter name, and both conventions of zeroing gradients."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.training.configuration import OptimizerConfig

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class NamedAdam:
    """Adam over the parameters of a module.

    With gradients `zeros`, a parameter that was ever used keeps a gradient of zeros and is updated at every step (its momentum
    and weight decay go on); with `none` it is left alone while its operator is absent.
    """

    def __init__(self, module: nn.Module, config: OptimizerConfig):
        self.names = dict(module.named_parameters())
        self.to_none = config.gradients == "none"
        self.adam = torch.optim.Adam(
            self.names.values(),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,
        )

    @property
    def learning_rate(self) -> float:
        return float(self.adam.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.adam.param_groups[0]["lr"] = value

    def zero(self) -> None:
        self.adam.zero_grad(set_to_none=self.to_none)

    def step(self) -> None:
        self.adam.step()

    def tensors(self) -> dict[str, Tensor]:
        """The state: `<moment>/<parameter>` for every parameter that was ever updated."""
        state: Mapping[Any, Any] = self.adam.state
        return {
            f"{moment}/{name}": state[parameter][moment]
            for name, parameter in self.names.items()
            if parameter in state
            for moment in _MOMENTS
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up a saved state, gradients of zeros included where the convention has them."""
        for name, parameter in self.names.items():
            if f"step/{name}" in tensors:
                self.adam.state[parameter] = {moment: tensors[f"{moment}/{name}"].clone() for moment in _MOMENTS}
                parameter.grad = None if self.to_none else torch.zeros_like(parameter)
