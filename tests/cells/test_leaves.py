"""The states of leaves: rows of the table, projected rows, numbers."""

import pytest
import torch
from every_cell import assert_same_gradients, make, some_batch, traced

from dgl_treestack import Operator, cells
from dgl_treestack.errors import ConfigurationError

INNER = (Operator("f", 2),)


def encoder(vector_size):
    leaves = cells.LeafEncoder(5, 3, vector_size=vector_size)
    leaves.reset_parameters(torch.Generator().manual_seed(0))
    return leaves


@pytest.mark.parametrize("vector_size", [0, 2, 3])
def test_h_of_symbols_and_numbers(vector_size):
    leaves = encoder(vector_size)
    token, number = torch.tensor([4, -1, 0, 4]), torch.tensor([0.0, -1.5, 0.0, 0.0])
    first = torch.sigmoid(leaves.number1.weight[:, 0] * -1.5 + leaves.number1.bias)
    of_number = torch.sigmoid(leaves.number2.weight @ first + leaves.number2.bias)
    rows = leaves.table @ leaves.projection.weight.T if vector_size else leaves.table  # h = P row
    torch.testing.assert_close(leaves(token, number), torch.stack([rows[4], of_number, rows[0], rows[4]]))
    torch.testing.assert_close(leaves(token[[0, 2]], number[[0, 2]]), rows[[4, 0]])


def test_parameters_by_vector_size():
    plain, projected = (dict(encoder(vector_size).named_parameters()) for vector_size in (0, 2))
    assert list(plain) == ["table", "number1.weight", "number1.bias", "number2.weight", "number2.bias"]
    assert list(projected) == [*plain, "projection.weight"]
    assert plain["table"].shape == (5, 3) and projected["table"].shape == (5, 2)
    assert projected["projection.weight"].shape == (3, 2)
    assert projected["projection.weight"].abs().max() <= 2**-0.5 < 1 < projected["table"].abs().max()
    assert all(torch.equal(projected[name], parameter) for name, parameter in encoder(2).named_parameters())


@pytest.mark.parametrize("name", ["tree_smu", "tree_rnn_stack_released"])
def test_a_cell_keeps_its_activation_and_its_other_parameters(name):
    cell, plain = (cells.build(name, INNER, 5, 4, vector_size=vector_size) for vector_size in (3, 0))
    assert cell.leaves.activation is plain.leaves.activation
    assert [key for key, _ in cell.named_parameters() if key != "leaves.projection.weight"] == [*dict(plain.named_parameters())]


@pytest.mark.parametrize("engine", ["levels", traced, pytest.param("levels/compiled", marks=traced.marks)])
@pytest.mark.parametrize("frozen", [False, True])
def test_engines_agree(engine, frozen):
    cell = make("tree_rnn", vector_size=3)
    cell.leaves.table.requires_grad_(not frozen)
    batch = some_batch()
    assert_same_gradients(cell, batch, engine)
    assert (cell.leaves.table.grad is None) == frozen
    assert cell.leaves.projection.weight.grad.any()


def test_what_takes_no_vectors_says_so():
    class Own(cells.Cell):
        def __init__(self, *sizes, **common):
            super().__init__(*sizes, **common)
            self.leaves = torch.nn.Embedding(5, 4)

        def node(self, ops, children, inputs, noise):
            return {"h": children["h"].sum(1)}, {}

    with pytest.raises(ConfigurationError, match="Own has its own leaf encoder, Embedding, which takes no vectors"):
        cells.build(Own, INNER, 5, 4, vector_size=3)
    with pytest.raises(ConfigurationError, match="'vector_size' is -1; it must be a whole number"):
        cells.build("tree_rnn", INNER, 5, 4, vector_size=-1)
