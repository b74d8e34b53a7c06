"""Adam and Muon against torch's own, where operators come and go."""

from functools import partial

import pytest
import torch
from each_case import cases
from every_cell import batch_of, make
from torch import nn

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate import propagate
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.muon import orthogonalise
from dgl_treestack.training.optimizer import RowOptimizer

USED = [(0, 1), (1,), (0, 2), (), (0, 1, 2), (2,)]  # parameters that have a gradient, step by step
# As a model has them: matrices of two shapes, an output layer, a bias and a table of leaves.
MATRICES = {"first": (8, 12), "second": (20, 8), "third": (8, 12), "output": (3, 12), "bias": (8,)}


def a_module(shapes=((4, 3), (3,), (2, 3, 5))):
    """Parameters of some shapes, by name, or by number."""
    generator = torch.Generator().manual_seed(0)
    shape_of = shapes if isinstance(shapes, dict) else dict(zip("012", shapes, strict=True))
    return nn.ParameterDict({name: nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in shape_of.items()})


def take(module, step, zero, *optimizers):
    """Make a step with the same random gradients for all modules, of some parameters."""
    generator = torch.Generator().manual_seed(step)
    zero()
    used = USED[step] if len(module) == 3 else [i for i in range(len(module)) if (i + step) % 3]
    for i, parameter in enumerate(module.values()):
        gradient = torch.randn(parameter.shape, generator=generator)
        if i in used:
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
    for optimizer in optimizers:
        optimizer.step()


def assert_same(ours, theirs, **tolerances):
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter, theirs[name], **tolerances or {"rtol": 0, "atol": 0})


@pytest.mark.parametrize("gradients", ["none", "zeros"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_is_torchs_adam(gradients, decay):
    ours, theirs = a_module(), a_module()
    adam = RowOptimizer(ours, OptimizerConfig(gradients=gradients, weight_decay=decay, learning_rate=0.01))
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=decay, fused=True)
    for step in range(len(USED)):
        if step == 4:
            adam.learning_rate = reference.param_groups[0]["lr"] = 0.5 * adam.learning_rate
        take(ours, step, adam.zero, adam)
        take(theirs, step, lambda: reference.zero_grad(set_to_none=gradients == "none"), reference)
        assert_same(ours, theirs)
        state = adam.tensors()
        for name, parameter in theirs.items():
            assert (ours[name].grad is None) == (parameter.grad is None)
            tensors = {kind: state[f"{kind}/{name}"] for kind in ("exp_avg", "exp_avg_sq", "step") if f"{kind}/{name}" in state}
            assert tensors.keys() == reference.state[parameter].keys()
            assert all(torch.equal(tensors[kind], value) for kind, value in reference.state[parameter].items())
    assert not torch.equal(ours["0"], a_module()["0"])


def follow(ours, optimizer, theirs, *references, zero, **tolerances):
    """Make the same steps with an optimizer of ours and with torch's own, and compare the parameters after each."""
    for step in range(len(USED)):
        take(ours, step, optimizer.zero, optimizer)
        take(theirs, step, zero, *references)
        assert_same(ours, theirs, **tolerances)


def test_parameters_without_weight_decay():
    ours, theirs = a_module(), a_module()
    adam = RowOptimizer(ours, OptimizerConfig(weight_decay=0.1, learning_rate=0.01), undecayed=["1"])
    groups = [{"params": [theirs["0"], theirs["2"]], "weight_decay": 0.1}, {"params": [theirs["1"]], "weight_decay": 0.0}]
    reference = torch.optim.Adam(groups, lr=0.01, fused=True)
    follow(ours, adam, theirs, reference, zero=reference.zero_grad)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_without_the_fused_kernel_it_is_torchs_adam_up_to_rounding(decay, monkeypatch):
    monkeypatch.delattr(torch, "_fused_adam_")
    ours, theirs = a_module(), a_module()
    adam = RowOptimizer(ours, OptimizerConfig(gradients="none", weight_decay=decay, learning_rate=0.01))
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=decay, fused=False)
    follow(ours, adam, theirs, reference, zero=reference.zero_grad, rtol=1e-6, atol=1e-7)
    assert not torch.equal(ours["0"], a_module()["0"])


@pytest.mark.parametrize("gradients", ["none", "zeros"])
@cases(("AdamW", {"betas": [0.8, 0.9]}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("RMSprop", {}))
def test_any_optimizer_of_torch_updates_what_has_a_gradient(gradients, method, settings):
    config = OptimizerConfig(learning_rate=0.01, weight_decay=0.1, gradients=gradients, method=method, settings=settings)
    ours, theirs = a_module(), a_module()
    reference = getattr(torch.optim, method)(theirs.parameters(), lr=0.01, weight_decay=0.1, **settings)
    zero = partial(reference.zero_grad, set_to_none=gradients == "none")
    follow(ours, RowOptimizer(ours, config), theirs, reference, zero=zero)


@pytest.mark.parametrize("method", ["adam", "muon", "SGD"])
@pytest.mark.parametrize("gradients", ["none", "zeros"])
def test_the_row_of_an_absent_operator_is_not_updated_unless_zeros_are_asked_for(gradients, method):
    """Nor by the momentum that it has from a batch with the operator."""
    cell = make("tree_smu", hidden=10)
    settings = {"momentum": 0.9} if method == "SGD" else {}
    config = OptimizerConfig(gradients=gradients, method=method, settings=settings, learning_rate=0.1)
    optimizer, changed = RowOptimizer(cell, config), []
    for text in ("sin(x) + y", "cos(x) + y"):
        before = {name: tensor.clone() for name, tensor in cell.state_dict().items()}
        optimizer.zero()
        propagate(batch_of(text), cell).sum().backward()
        optimizer.collect()
        optimizer.step()
        moved = [name for name, tensor in cell.state_dict().items() if not tensor.equal(before[name])]
        changed.append({name.rpartition("_")[2] for name in moved})
    operators = [{name for name in of_step if name in cell.products["gates"].keys} for of_step in changed]
    assert operators == [{"sin", "Add"}, {"cos", "Add"} | ({"sin"} if gradients == "zeros" else set())]


@cases(
    ("AdaGrad", {}, "Unknown optimizer 'AdaGrad'. Did you mean 'Adagrad'"),
    ("LBFGS", {}, "Unknown optimizer 'LBFGS'"),
    ("SGD", {"momentums": 1}, "'optimizer.settings' do not fit 'SGD': .*momentums"),
    ("SGD", {"momentum": -1.0}, "'optimizer.settings' do not fit 'SGD': Invalid momentum value"),
)
def test_faulty_optimizers(method, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        RowOptimizer(a_module(), OptimizerConfig(method=method, settings=settings))


@pytest.mark.parametrize(("decay", "hidden"), [(0.0, ()), (0.1, ()), (0.1, ("lerp_", "mul_", "sub_"))])
def test_muon_is_torchs_muon_for_matrices_and_adam_for_the_rest(decay, hidden, monkeypatch):
    for operation in hidden:
        monkeypatch.delattr(torch, f"_foreach_{operation}")
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # torch rounds updates to bfloat16, up to 2.14 so,
    monkeypatch.setattr(torch, "bfloat16", torch.float32)  # later with the method `to`
    ours, theirs = a_module(MATRICES), a_module(MATRICES)
    muon = RowOptimizer(ours, OptimizerConfig(weight_decay=decay, learning_rate=0.01, method="muon"))
    settings = {"lr": 0.01, "weight_decay": decay}
    matrices, others = [[theirs[name] for name in names] for names in (("first", "second", "third"), ("output", "bias"))]
    references = torch.optim.Muon(matrices, **settings, adjust_lr_fn="match_rms_adamw"), torch.optim.Adam(others, **settings)
    follow(ours, muon, theirs, *references, zero=theirs.zero_grad, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(ours["second"], a_module(MATRICES)["second"], atol=1e-3)
    assert torch.equal(orthogonalise(torch.zeros(1, 4, 4)), torch.zeros(1, 4, 4))
