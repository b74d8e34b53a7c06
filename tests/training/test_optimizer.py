"""Adam against torch's own, number for number, where operators come and go."""

import pytest
import torch
from torch import nn

from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.state import NamedAdam

USED = [(0, 1), (1,), (0, 2), (), (0, 1, 2), (2,)]  # parameters that have a gradient, step by step


def a_module():
    generator = torch.Generator().manual_seed(0)
    shapes = (4, 3), (3,), (2, 3, 5)
    return nn.ParameterList([nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes])


def take(module, step, zero, adam):
    generator = torch.Generator().manual_seed(step)
    zero()
    loss = sum((module[i] * torch.randn(module[i].shape, generator=generator)).sum() for i in USED[step])
    if USED[step]:
        loss.backward()
    adam.step()


@pytest.mark.parametrize("gradients", ["none", "zeros"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_is_torchs_adam(gradients, decay):
    config = OptimizerConfig(gradients=gradients, weight_decay=decay, learning_rate=0.01)
    ours, theirs = a_module(), a_module()
    adam = NamedAdam(ours, config)
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=decay, fused=True)
    for step in range(len(USED)):
        if step == 4:
            adam.learning_rate = reference.param_groups[0]["lr"] = 0.5 * adam.learning_rate
        take(ours, step, adam.zero, adam)
        take(theirs, step, lambda: reference.zero_grad(set_to_none=gradients == "none"), reference)
        for i, (parameter, expected) in enumerate(zip(ours, theirs, strict=True)):
            assert torch.equal(parameter, expected), (step, i)
            assert (parameter.grad is None) == (expected.grad is None)
        state = adam.tensors()
        for i, parameter in enumerate(theirs):
            tensors = {name: state[f"{name}/{i}"] for name in ("exp_avg", "exp_avg_sq", "step") if f"{name}/{i}" in state}
            assert tensors.keys() == reference.state[parameter].keys()
            assert all(torch.equal(tensors[name], value) for name, value in reference.state[parameter].items())
    assert not torch.equal(ours[0], a_module()[0])


def test_parameters_without_weight_decay():
    ours, theirs = a_module(), a_module()
    adam = NamedAdam(ours, OptimizerConfig(weight_decay=0.1, learning_rate=0.01), undecayed=["1"])
    groups = [{"params": [theirs[0], theirs[2]], "weight_decay": 0.1}, {"params": [theirs[1]], "weight_decay": 0.0}]
    reference = torch.optim.Adam(groups, lr=0.01, fused=True)
    for step in range(len(USED)):
        take(ours, step, adam.zero, adam)
        take(theirs, step, reference.zero_grad, reference)
        assert all(torch.equal(parameter, expected) for parameter, expected in zip(ours, theirs, strict=True)), step


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_without_the_fused_kernel_it_is_torchs_adam_up_to_rounding(decay, monkeypatch):
    monkeypatch.delattr(torch, "_fused_adam_")
    config = OptimizerConfig(gradients="none", weight_decay=decay, learning_rate=0.01)
    ours, theirs = a_module(), a_module()
    adam = NamedAdam(ours, config)
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=decay, fused=False)
    for step in range(len(USED)):
        take(ours, step, adam.zero, adam)
        take(theirs, step, reference.zero_grad, reference)
        for parameter, expected in zip(ours, theirs, strict=True):
            assert torch.allclose(parameter, expected, rtol=1e-6, atol=1e-7)
    assert not torch.equal(ours[0], a_module()[0])


@pytest.mark.parametrize("gradients", ["none", "zeros"])
def test_it_goes_on_from_its_state(gradients):
    config = OptimizerConfig(gradients=gradients, weight_decay=0.1)
    ours, resumed = a_module(), a_module()
    adam, resumed_adam = NamedAdam(ours, config), NamedAdam(resumed, config)
    for step in range(2):
        take(ours, step, adam.zero, adam)
    resumed.load_state_dict(ours.state_dict())
    resumed_adam.restore(adam.tensors())
    assert {name.split("/")[1] for name in resumed_adam.tensors()} == {"0", "1"}  # the third was never used
    for step in range(2, len(USED)):
        take(ours, step, adam.zero, adam)
        take(resumed, step, resumed_adam.zero, resumed_adam)
    assert all(torch.equal(left, right) for left, right in zip(ours, resumed, strict=True))
