"""What every cell must do, for every class and branch of every file in `dgl_treestack/cells`, found by listing the folder."""

import random

import every_cell
import jaxtyping
import pytest
import torch
from each_case import assert_raises, cases
from every_cell import VOCABULARY, assert_equals_oracle, assert_same_gradients, make, some_batch, some_trees, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OneOperator
from torch import nn
from trees import BINARY, UNARY, random_tree, shuffled

from dgl_treestack import MATH, Expression, Operator, cells
from dgl_treestack.cells.memory import stack
from dgl_treestack.data import graph
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate import draw_noise, propagate

USED = {*UNARY, *BINARY, "arity1", "arity2", "all"}  # or what operators of an arity share
TWICE = ("tree_smu", "tree_lstm", "tree_slots", "mtree_lstm_stack_first_order", "tree_rnn_stack_noop", "tree_queue")


@every_cell.every_engine
@every_cell.every_model_in_each_form
def test_equals_the_recursion(name, form, engine):
    trees, batch = some_trees(), some_batch()
    for share in ("operator", "all"):
        cell = make(name, form=form, share=share)
        with torch.no_grad():
            propagate(batch, cell, engine=engine)
            assert not any(key.startswith("signal/") for key in batch.ndata)
            propagate(batch, cell, engine=engine, signals=list(cell.signals))
            assert_equals_oracle(cell, trees, batch)
        assert batch.ndata["h"].abs().sum() > 0
        for signal, shape in cell.signals.items():
            expected = tuple(2 if extent == cells.PER_CHILD else extent for extent in shape)
            assert batch.ndata.pop(f"signal/{signal}").shape == (batch.num_nodes(), *expected)
    for product in cell.products.values():
        assert {key.split("_", 1)[1] for key in product.state_dict()} in ({"arity1", "arity2"}, {"all"})
    with pytest.raises(ConfigurationError, match="Unknown signal 'no such signal'"):
        propagate(batch, cell, engine=engine, signals=["no such signal"])


@every_cell.every_engine
@every_cell.every_model
def test_external_input_reaches_inner_nodes_in_any_order(name, engine):
    cell, trees, batch = make(name, input_size=3), some_trees(), some_batch(external=3)
    other, new = shuffled(batch, seed=11)
    with torch.no_grad():
        first = propagate(batch, cell, engine=engine, signals=list(cell.signals)).clone()
        assert_equals_oracle(cell, trees, batch, inputs=batch.ndata["input"])
        assert torch.allclose(first, propagate(other, cell, engine=engine)[new], rtol=1e-12, atol=1e-12)
        batch.ndata["input"] = batch.ndata["input"] + 1
        second = propagate(batch, cell, engine=engine)
    inner = batch.ndata["op"] >= 0
    assert not torch.allclose(first[inner], second[inner])
    assert torch.equal(first[~inner], second[~inner])


@every_cell.every_model
def test_gradcheck(name):
    """By `topo`, and of some models twice; tests/propagate compares every gradient of the other engines with its."""
    jaxtyping.config.update("jaxtyping_disable", True)  # a hundred steps, the shapes of which other tests check
    cell = cells.build(name, [MATH["sin"], MATH["Add"]], len(VOCABULARY), 2).double()
    cell.reset_parameters(torch.Generator().manual_seed(2))

    class Sweep(nn.Module):
        def forward(self):
            return propagate(every_cell.batch_of("sin(sin(x) + (y + sin(2.75))) = (x + x) + y"), self.cell, engine="topo")

    sweep = Sweep()
    sweep.cell = cell
    values = {key: value.detach().requires_grad_() for key, value in sweep.named_parameters() if "table" not in key}

    def states(*parameters):
        return torch.func.functional_call(sweep, dict(zip(values, parameters, strict=True)), ())

    checks = [torch.autograd.gradcheck, torch.autograd.gradgradcheck]
    for check in checks if name in TWICE else checks[:1]:
        assert check(states, tuple(values.values()), fast_mode=True)  # one direction per parameter: minutes less


@every_cell.every_engine
@every_cell.every_model
def test_gradients_reach_what_was_used_and_nothing_else(name, engine):
    cell = make(name)
    rng = random.Random(8)
    trees = [random_tree(rng, 6) for _ in range(16)]
    propagate(graph.from_expressions(trees, VOCABULARY), cell, engine=engine).pow(2).sum().backward()
    for key, gradient in every_cell.row_gradients(cell).items():
        if key.startswith("products.") and key.rpartition(".")[2].split("_", 1)[1] not in USED:
            assert gradient is None, f"{key} of an absent operator has a gradient"
        elif key.startswith("products."):
            is_reached = gradient is not None and all(gradient.any(dim).all() for dim in range(gradient.dim()))
            assert is_reached, f"a row or column of {key} got no gradient"
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in cell.leaves.parameters())


@every_cell.every_engine
@every_cell.every_model
def test_dropout(name, engine):
    cell, trees, batch = make(name, dropout=0.4), some_trees(), some_batch()
    assert draw_noise(cell, batch, torch.Generator()) == {}
    with torch.no_grad():
        still = propagate(batch, cell, engine=engine).clone()
        cell.train()
        noise = draw_noise(cell, batch, torch.Generator().manual_seed(4))
        again = draw_noise(cell, batch, torch.Generator().manual_seed(4))
        assert all(torch.equal(noise[field], again[field]) for field in noise)
        dropped = propagate(batch, cell, engine=engine, noise=noise, signals=list(cell.signals))
        assert_equals_oracle(cell, trees, batch, noise=noise)
    inner = batch.ndata["op"] >= 0
    assert not torch.allclose(still[inner], dropped[inner])
    assert torch.equal(still[~inner], dropped[~inner])
    for factors in noise.values():
        assert factors.unique().tolist() == [0.0, pytest.approx(1 / 0.6)]
        assert abs(float((factors == 0).double().mean()) - 0.4) < 0.1


@every_cell.every_name
def test_repr_and_docstring_say_what_it_is_and_initial_values_come_from_the_generator(name):
    cell, model = make(name), every_cell.MODELS[name]
    assert type(cell).__name__ in repr(cell) and f"h=({every_cell.HIDDEN},)" in repr(cell)
    assert "eq." in type(cell).__doc__ and "Shapes:" in type(cell).__doc__
    assert model.paper and model.equations and model.adds
    assert all(map(torch.equal, cell.parameters(), make(name).parameters()))


@pytest.mark.parametrize("engine", ["levels", traced])
@every_cell.every_other_model
def test_another_name_is_its_class_with_its_settings(name, engine):
    """Class and branches are those of models that are tested in full."""
    spec, cell, trees, batch = every_cell.MODELS[name], make(name), some_trees(), some_batch()
    direct = spec.cell(MATH.inner, len(VOCABULARY), every_cell.HIDDEN, **spec.settings).double().eval()
    direct.load_state_dict(cell.state_dict())
    assert type(cell) is spec.cell and cell.settings == spec.settings
    assert (cell.fields, cell.signals, cell.noise, cell.form) == (direct.fields, direct.signals, direct.noise, direct.form)
    with torch.no_grad():
        assert torch.equal(propagate(batch, cell, engine=engine), propagate(batch, direct, engine=engine))
        propagate(batch, cell, engine=engine, signals=list(cell.signals))
        assert_equals_oracle(cell, trees, batch)
    assert_same_gradients(cell.train(), batch, engine)


@pytest.mark.parametrize("engine", ["levels", traced])
def test_a_long_chain_needs_no_recursion(engine):
    depth = 1100  # Python gives up at 1,000
    cell = make("tree_smu", hidden=2, stack_size=2)
    batch = graph.from_expressions([Expression.from_prefix("sin " * depth + "Symbol:x")], VOCABULARY)
    assert_same_gradients(cell, batch, engine)
    h = batch.ndata["h"]
    assert torch.isfinite(h).all() and h[:-1].all()
    assert cell.products["gates"].weight1.grad.any()


@cases(
    ("tree_smw", {}, "Did you mean 'tree_smu'"),
    ("tree_smu", {"stack": 2}, "Unknown setting 'stack'"),
    ("tree_smu", {"common": 3}, "Unknown setting 'common'"),
    ("tree_smu", {"share": "some"}, "Unknown value for 'share': 'some'"),
    ("tree_smu", {"form": "sum"}, "Known: child_sum, nary"),
    ("tree_smu", {"stack_size": 0}, "'stack_size' is 0"),
    ("tree_smu", {"top_k": 9}, "whole number from 1 to 5"),
    ("tree_smu", {"activation": "relu"}, "Unknown value for 'activation': 'relu'"),
    ("tree_smu", {"normalise": "foo"}, "Known: none, softmax, sum"),
    ("tree_smu", {"noop": 1}, "true or false"),
    ("tree_rnn_second_order_bilinear", {"form": "child_sum"}, "distinguishes children"),
)
def test_settings_are_checked(name, settings, message):
    assert_raises(ConfigurationError, message, cells.build, name, MATH.inner, 3, 4, **settings)


few = settings(max_examples=5)
seeds = st.integers(0, 10_000)


@every_cell.every_model
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


@every_cell.every_model_in_each_form
@few
@given(seeds)
def test_child_sum_cells_ignore_the_order_of_children_and_nary_ones_do_not(name, form, seed):
    cell, source = make(name, seed, form=form), torch.Generator().manual_seed(seed)
    children = {f: torch.rand(1, 2, *shape, dtype=torch.float64, generator=source) for f, shape in cell.fields.items()}
    swapped = {field: value.flip(1) for field, value in children.items()}
    first, second = (cell.node(OneOperator(cell, "Add"), given, None, {})[0] for given in (children, swapped))
    same = [torch.allclose(first[field], second[field], rtol=1e-10, atol=1e-12) for field in cell.fields]
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
