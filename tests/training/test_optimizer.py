"""Adam and Muon against torch's own, where operators come and go."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.adam import NamedAdam
from dgl_treestack.training.muon import NamedMuon, orthogonalise

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


def matrices_and_others():
    """Matrices of two shapes, an output layer, a bias and a table of leaves, as a model has them."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"first": (8, 12), "second": (20, 8), "third": (8, 12), "output": (3, 12), "bias": (8,)}
    parameters = {name: nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in shapes.items()}
    return nn.ParameterDict(parameters)


def take_by_name(module, step, zero, optimizer):
    generator = torch.Generator().manual_seed(step)
    zero()
    for i, parameter in enumerate(module.values()):
        gradient = torch.randn(parameter.shape, generator=generator)
        if (i + step) % 3:
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
    optimizer.step()


@pytest.mark.parametrize(("decay", "hidden"), [(0.0, ()), (0.1, ()), (0.1, ("lerp_", "mul_", "sub_"))])
def test_muon_is_torchs_muon_for_matrices_and_adam_for_the_rest(decay, hidden, monkeypatch):
    for operation in hidden:
        monkeypatch.delattr(torch, f"_foreach_{operation}")
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # torch rounds updates to bfloat16, up to 2.14 so,
    monkeypatch.setattr(torch, "bfloat16", torch.float32)  # later with the method `to`
    ours, theirs = matrices_and_others(), matrices_and_others()
    muon = NamedMuon(ours, OptimizerConfig(weight_decay=decay, learning_rate=0.01, method="muon"))
    settings = {"lr": 0.01, "weight_decay": decay}
    matrices, others = [[theirs[name] for name in names] for names in (("first", "second", "third"), ("output", "bias"))]
    references = torch.optim.Muon(matrices, **settings, adjust_lr_fn="match_rms_adamw"), torch.optim.Adam(others, **settings)

    def reference_step():
        for reference in references:
            reference.step()

    for step in range(6):
        take_by_name(ours, step, muon.zero, muon)
        take_by_name(theirs, step, theirs.zero_grad, SimpleNamespace(step=reference_step))
        assert all(torch.allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-6) for name in ours), step
    assert not torch.allclose(ours["second"], matrices_and_others()["second"], atol=1e-3)


@pytest.mark.parametrize("gradients", ["none", "zeros"])
def test_muon_goes_on_from_its_state(gradients):
    config = OptimizerConfig(gradients=gradients, weight_decay=0.1, method="muon")
    ours, resumed = matrices_and_others(), matrices_and_others()
    muon, resumed_muon = NamedMuon(ours, config), NamedMuon(resumed, config)
    take_by_name(ours, 0, muon.zero, muon)
    resumed.load_state_dict(ours.state_dict())
    resumed_muon.restore(muon.tensors())
    assert {name for name in resumed_muon.tensors() if name.startswith("momentum/")} == {"momentum/first", "momentum/third"}
    for step in range(1, 5):
        take_by_name(ours, step, muon.zero, muon)
        take_by_name(resumed, step, resumed_muon.zero, resumed_muon)
    assert all(torch.equal(ours[name], resumed[name]) for name in ours)


def test_orthogonalised_matrices_have_singular_values_near_one():
    matrices = torch.randn(5, 12, 30, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 3, 5)[:, None, None]
    for batch in (matrices, matrices.mT):
        values = torch.linalg.svdvals(orthogonalise(batch))
        assert values.min() > 0.65 and values.max() < 1.2
    assert torch.equal(orthogonalise(torch.zeros(1, 4, 4)), torch.zeros(1, 4, 4))
