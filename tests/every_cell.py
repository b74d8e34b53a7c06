"""What tests of all cells share: every model and engine by name, and the comparison with the recursive oracle."""

import random

import pytest
import torch
from oracle import recurse
from trees import random_equation, random_tree

from dgl_treestack import cells
from dgl_treestack.operators import MATH
from dgl_treestack.propagate import ENGINES
from dgl_treestack.vocabulary import PRESETS

VOCABULARY = PRESETS["released"]
HIDDEN = 6

every_model = pytest.mark.parametrize("name", sorted(cells.models()))
every_engine = pytest.mark.parametrize("engine", [name for name in ENGINES if name != "levels/compiled"])


def make(name, seed=1, **settings):
    cell = cells.build(name, MATH.inner, len(VOCABULARY), HIDDEN, **settings)
    cell.reset_parameters(torch.Generator().manual_seed(seed))
    return cell.double().eval()


def some_trees(seed=3, count=8):
    rng = random.Random(seed)
    return [random_equation(rng, rng.randrange(2, 6)) if i % 2 else random_tree(rng, rng.randrange(5)) for i in range(count)]


def assert_equals_oracle(cell, trees, batch, inputs=None, noise=None):
    """h, every other field and every signal of every node."""
    start = 0
    for tree in trees:
        visited: dict = {}
        span = slice(start, start + tree.size)
        own_noise = {field: factors[span] for field, factors in (noise or {}).items()}
        own_inputs = None if inputs is None else inputs[span]
        recurse(cell, tree, VOCABULARY, inputs=own_inputs, noise=own_noise, visited=visited)
        for node, (state, signals) in visited.items():
            for field, shape in cell.fields.items():
                found = batch.ndata[field][start + node]
                expected = state[field].flatten() if state else torch.zeros_like(found)
                assert torch.allclose(found, expected, rtol=1e-10, atol=1e-10), (tree, node, field, shape)
            for signal in cell.signals:
                found = batch.ndata[f"signal/{signal}"][start + node]
                if signal in signals:
                    assert torch.allclose(found[: signals[signal].shape[1]], signals[signal][0], rtol=1e-10, atol=1e-10)
                else:
                    assert not found.any()
        start += tree.size
