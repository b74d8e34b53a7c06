"""Models computed as one have the numbers that each has by itself."""

import random

import pytest
import torch
from every_cell import VOCABULARY, every_model, needs_compiler
from trees import random_equation

from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.model.model import Model
from dgl_treestack.model.stacked import Stacked

COUNTS = (7, 1, 5)
LEAVES = [("Symbol", "x"), ("Symbol", "y"), ("Integer", "2"), ("Number", "1.29")]


def built(name, seed, **settings):
    model = Model.build(name, 5, VOCABULARY, ["verification"], **settings)
    model.reset_parameters(torch.Generator().manual_seed(seed))
    return model.double().train()


def data(model):
    rng = random.Random(0)
    return model.prepare([Example(random_equation(rng, 1 + i % 5, leaves=LEAVES), i % 2, str(i)) for i in range(40)])


def generators():
    return [torch.Generator().manual_seed(7 + i) for i in range(len(COUNTS))]


def gradients(model):
    gradients_by_name = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad(set_to_none=True)
    return gradients_by_name


def compare(name, engine, **settings):
    models = [built(name, seed, **settings) for seed in range(len(COUNTS))]
    dataset, rng = data(models[0]), random.Random(1)
    batches = [dataset.batch(rng.sample(range(40), count)) for count in COUNTS]
    for batch in batches if settings.get("input_size") else ():
        batch.graph.ndata["input"] = torch.randn(batch.graph.num_nodes(), settings["input_size"], dtype=torch.float64)
    alone, gradients_alone = [], []
    for model, batch, generator in zip(models, batches, generators(), strict=True):
        alone.append(model(batch, engine, generator=generator))
        model.losses(alone[-1], batch).mean().backward()
        gradients_alone.append(gradients(model))
    together = Stacked(models)(batches, engine, generators())
    sum(model.losses(output, batch).mean() for model, output, batch in zip(models, together, batches, strict=True)).backward()
    for model, output, expected, expected_gradients in zip(models, together, alone, gradients_alone, strict=True):
        assert torch.allclose(expected, output, rtol=1e-12, atol=1e-12)
        gradients_together = gradients(model)
        assert gradients_together.keys() == expected_gradients.keys()
        for key, gradient in expected_gradients.items():
            assert torch.allclose(gradients_together[key], gradient, rtol=1e-10, atol=1e-12)


@needs_compiler
@every_model
def test_every_model_has_its_own_outputs_and_gradients(name):
    compare(name, "levels/pieces")


@pytest.mark.parametrize("engine", ["topo", "levels"])
@pytest.mark.parametrize(
    "settings",
    [{"dropout": 0.3}, {"dropout": 0.3, "masks": "subtree"}, {"share": "all"}, {"form": "child_sum"}, {"input_size": 3}],
)
def test_dropout_forms_and_input(engine, settings):
    compare("tree_smu", engine, **settings)


def test_an_encoder_has_no_operators_to_number():
    model = Model.build("lstm", 4, VOCABULARY, ["verification"])
    with pytest.raises(ConfigurationError, match="tree model"):
        Stacked([model, model])
