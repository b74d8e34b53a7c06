"""Batches of forests, whose graphs are built only when they are asked for."""

import pickle

import numpy as np
import pytest
import torch
from every_cell import VOCABULARY, some_trees, traced

from dgl_treestack import Equation, Example, Expression, Forest, Model
from dgl_treestack.model.dataset import AT_ONCE

TEXTS = ("sin(x) = y", "x + y*sin(x) = 2", "x = x", "cos(x + y) + cos(x + y) = tanh(2)**y")


@pytest.fixture
def model():
    model = Model.build("tree_smu", 6, VOCABULARY, ["verification"], stack_size=2, dropout=0.5).double().eval()
    model.reset_parameters(torch.Generator().manual_seed(0))
    return model


@pytest.fixture
def dataset(model):
    trees = [Equation.parse(text) for text in TEXTS]
    trees += [Equation.of(tree, Expression.parse("x")) for tree in some_trees() if not isinstance(tree, Equation)]
    return model.prepare([Example(tree, 1, str(i)) for i, tree in enumerate(trees)])


@pytest.mark.parametrize("engine", ["levels", traced])
def test_a_graph_is_made_only_if_somebody_asks(model, dataset, engine):
    batch = dataset.batch(np.arange(len(dataset)))
    model.train()
    output = model(batch, engine, generator=torch.Generator().manual_seed(1))
    assert isinstance(batch.trees, Forest)
    assert torch.allclose(output, model(batch, "topo", generator=torch.Generator().manual_seed(1)))
    assert batch.trees is batch.graph


@pytest.mark.parametrize("engine", ["levels", traced])
def test_changes_of_the_graph_are_seen_by_plans_that_are_yet_to_be_made(model, dataset, engine):
    first, batch = dataset.in_order(np.arange(4).repeat(2), 4)
    model(first, engine)  # makes the plans of both
    before = model(dataset.batch(np.arange(4).repeat(2)[4:]), engine)
    batch.graph.ndata["token"] = torch.where(batch.graph.ndata["token"] >= 0, 3, -1)
    assert torch.allclose(model(batch, engine), model(batch, "topo")) and not torch.allclose(model(batch, engine), before)
    model.train()  # with a mask per node, which needs another plan
    after, by_topo = (model(batch, name, generator=torch.Generator().manual_seed(1)) for name in (engine, "topo"))
    assert torch.allclose(after, by_topo) and not torch.allclose(after, before)


@pytest.mark.parametrize("engine", ["levels", traced])
def test_batches_made_together_are_those_made_alone(model, dataset, engine):
    order = np.random.default_rng(0).integers(len(dataset), size=31)
    together = list(dataset.in_order(order, 3))
    alone = [dataset.batch(order[start : start + 3]) for start in range(0, len(order), 3)]
    assert len(together) == len(alone) > AT_ONCE
    for batch, expected in zip(together, alone, strict=True):
        assert torch.equal(model(batch, engine), model(expected, engine))
        assert torch.equal(batch.targets.nan_to_num(), expected.targets.nan_to_num())
        assert np.array_equal(batch.task, expected.task)


def test_processes_can_hand_each_other_batches(model, dataset):
    batch = dataset.batch(np.arange(4))
    assert torch.equal(model(pickle.loads(pickle.dumps(batch))), model(batch))
