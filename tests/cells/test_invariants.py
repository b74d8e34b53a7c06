"""What holds for the gates and the empty rows of every cell."""

import random

import pytest
import torch
from every_cell import VOCABULARY, every_model, every_model_in_each_form, make, some_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OneOperator
from trees import random_tree

from dgl_treestack import MATH, cells
from dgl_treestack.cells.memory import stack
from dgl_treestack.data import graph
from dgl_treestack.propagate import propagate

few = settings(max_examples=5)
seeds = st.integers(0, 10_000)


@every_model
@few
@given(seeds)
def test_actions_sum_to_one(name, seed):
    cell, batch = make(name, seed), some_batch(seed, 4)
    with torch.no_grad():
        propagate(batch, cell, signals=list(cell.signals))
    groups: dict[str, list[str]] = {}
    for signal in cell.signals:
        prefix, action = signal.rpartition("_")[::2]
        if action in stack.ACTIONS:
            groups.setdefault(prefix, []).append(signal)
    assert bool(groups) == any("stack" in field for field in cell.fields)
    inner = batch.ndata["op"] >= 0
    inner &= batch.ndata["op"] != MATH.index["Equality"]  # which has no state
    for signals in groups.values():
        total = sum(batch.ndata[f"signal/{signal}"][inner] for signal in signals)
        if name != "tree_lstm_stack":  # whose gates are one sigmoid each
            assert torch.allclose(total, torch.ones_like(total), rtol=1e-12)


@every_model_in_each_form
@few
@given(seeds)
def test_child_sum_cells_ignore_the_order_of_children_and_nary_ones_do_not(name, form, seed):
    cell, source = make(name, seed, form=form), torch.Generator().manual_seed(seed)
    children = {f: torch.rand(1, 2, *shape, dtype=torch.float64, generator=source) for f, shape in cell.fields.items()}
    states = [
        cell.node(OneOperator(cell, "Add"), {f: v[:, o] for f, v in children.items()}, None, {})[0] for o in ([0, 1], [1, 0])
    ]
    same = [torch.allclose(states[0][field], states[1][field], rtol=1e-10, atol=1e-12) for field in cell.fields]
    assert all(same) if form == "child_sum" else not same[0]


@pytest.mark.parametrize("name", sorted(name for name, model in cells.models().items() if "stack_size" in model.settings))
def test_an_empty_row_holds_what_was_asked_for(name):
    cell = make(name, empty=-1.0)
    leaf = cell.leaf(torch.tensor([0, 1]), torch.zeros(2, dtype=torch.float64))
    assert (leaf["stack"] == -1).all() and (leaf["h"] != -1).any()


@pytest.mark.parametrize("height", range(1, 10))
def test_row_n_of_a_stack_reaches_an_output_from_height_2n_minus_1(height):
    """It is first filled at height n, and n - 1 pops bring it to the top."""
    source, outputs = random.Random(height), []
    trees = [random_tree(source, height) for _ in range(12)]
    for rows in range(1, 6):
        batch = graph.from_expressions(trees, VOCABULARY)
        with torch.no_grad():
            propagate(batch, make("tree_smu", stack_size=rows))
        outputs.append(batch.ndata["h"])
    for rows in range(2, 6):
        assert torch.equal(outputs[rows - 1], outputs[rows - 2]) == (height < 2 * rows - 1)
