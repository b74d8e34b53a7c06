"""Adam as the papers use it, with its state by parameter name, and both conventions of zeroing gradients."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dgl_treestack.runs.configuration import OptimizerConfig

_STATE = ("exp_avg", "exp_avg_sq", "step")


class NamedAdam:
    """Adam over the parameters of a module, which are of one type and on one device.

    With gradients `zeros`, a parameter that was ever used keeps a gradient of zeros and is updated at every step (its momentum
    and weight decay go on); with `none` it is left alone while its operator is absent.

    The update is the fused one of `torch.optim.Adam`, which takes as long again for what is around it: at every step it goes
    through all its options, and counts steps with an operation for every parameter.
    """

    def __init__(self, module: nn.Module, config: OptimizerConfig):
        self.config, self.learning_rate = config, config.learning_rate
        self.names = dict(module.named_parameters())
        self.parameters = list(self.names.values())
        self.moments: list[tuple[Tensor, Tensor] | None] = [None] * len(self.parameters)
        self.steps = torch.zeros(len(self.parameters), dtype=torch.float32, device=self.parameters[0].device)
        self.step_of = self.steps.unbind()

    def zero(self) -> None:
        for parameter in self.parameters:
            if self.config.gradients == "none":
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        gradients = {i: parameter.grad for i, parameter in enumerate(self.parameters) if parameter.grad is not None}
        if not gradients:
            return
        for i in gradients:
            if self.moments[i] is None:
                self.moments[i] = torch.zeros_like(self.parameters[i]), torch.zeros_like(self.parameters[i])
        first, second = zip(*(self.moments[i] for i in gradients), strict=True)
        self.steps += torch.tensor([i in gradients for i in range(len(self.parameters))]).to(self.steps)
        torch._fused_adam_(
            [self.parameters[i] for i in gradients],
            [*gradients.values()],
            first,
            second,
            [],
            [self.step_of[i] for i in gradients],
            lr=self.learning_rate,
            beta1=self.config.beta1,
            beta2=self.config.beta2,
            weight_decay=self.config.weight_decay,
            eps=self.config.epsilon,
            amsgrad=False,
            maximize=False,
        )

    def tensors(self) -> dict[str, Tensor]:
        """The state: `<moment>/<parameter>` for every parameter that was ever updated."""
        return {
            f"{kind}/{name}": tensor
            for name, moments, step in zip(self.names, self.moments, self.step_of, strict=True)
            if moments is not None
            for kind, tensor in zip(_STATE, (*moments, step.clone()), strict=True)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up a saved state, gradients of zeros included where the convention has them."""
        for i, (name, parameter) in enumerate(self.names.items()):
            if f"step/{name}" in tensors:
                first, second, step = (tensors[f"{kind}/{name}"].clone() for kind in _STATE)
                self.moments[i] = first, second
                self.steps[i] = step
                parameter.grad = None if self.config.gradients == "none" else torch.zeros_like(parameter)
