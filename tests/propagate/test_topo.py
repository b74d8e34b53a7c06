import pytest
import torch

from dgl_treestack import cells, graph
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression import Expression
from dgl_treestack.operators import Operator, Signature
from dgl_treestack.propagate import propagate
from dgl_treestack.vocabulary import PRESETS


def test_states_stay_on_the_graph_and_nothing_else_does():
    cell = cells.build("tree_smu", [], 34, 3, stack_size=2)
    cell.reset_parameters(torch.Generator())
    batch = graph.from_expressions([Expression.parse("x")], PRESETS["released"])
    before = set(batch.ndata), set(batch.edata)
    assert propagate(batch, cell).shape == (1, 3)
    assert batch.ndata["stack"].shape == (1, 6)
    assert (set(batch.ndata) - {"h", "stack"}, set(batch.edata)) == before


def test_a_cell_that_breaks_its_promise_is_named():
    class Broken(cells.Cell):
        def node(self, ops, children, inputs, noise):
            return {"h": children["h"][:, 0, :2]}, {}

    signature = Signature("s", (Operator("f", 1),))
    cell = Broken(signature.operators, 34, 3)
    cell.reset_parameters(torch.Generator())
    batch = graph.from_expressions([Expression.from_prefix("f Symbol:x", signature)], PRESETS["released"], signature)
    with pytest.raises(RuntimeError, match=r"Broken returned 'h' of shape \(1, 2\); its fields promise \(1, 3\)"):
        propagate(batch, cell, signature=signature)


def test_unknown_engine():
    batch = graph.from_expressions([Expression.parse("x")], PRESETS["released"])
    with pytest.raises(ConfigurationError, match="Unknown engine 'fast'"):
        propagate(batch, cells.build("tree_rnn", [], 34, 3), engine="fast")
