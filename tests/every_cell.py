"""What tests of all cells share: models and engines by name, and the comparison with the recursive oracle.

Model names are classes with settings, and several names lead through the same code. `every_model` are as few names as lead
through every class and every branch that a setting switches: these are tested in full. `every_other_model` are the rest,
each of which has to be its class with its settings. `every_name` are both.
"""

import random

import pytest
import torch
from oracle import recurse
from trees import random_equation, random_tree

from dgl_treestack import MATH, Expression, cells
from dgl_treestack.data import graph
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.plain_data import settings_of
from dgl_treestack.propagate import propagate
from dgl_treestack.propagate.compiled.library import unavailable
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.optimizer import RowOptimizer

VOCABULARY = PRESETS["released"]
HIDDEN = 6

MODELS = cells.models()


def branches(name, ignored=()):
    """What a model name switches in the code: its class with every setting, a count as none, one or several.

    Settings that the name leaves at their defaults count too. Numbers with a point switch nothing.
    """
    spec = MODELS[name]
    settings = {key: x for key, x in settings_of(spec.cell).items() if key not in (*cells.COMMON, *ignored)} | spec.settings
    switches = {key: min(x, 2) if type(x) is int else x for key, x in settings.items() if type(x) is not float}
    return {(spec.cell, key, value) for key, value in switches.items() if key not in ignored}


def representatives(ignored=()):
    """As few names as have all branches of all, at every step the one with most new ones, of several the plainest."""
    names = sorted(MODELS, key=lambda name: (len(MODELS[name].settings), len(name), name))
    missing, chosen = set().union(*(branches(name, ignored) for name in names)), []
    while missing:
        chosen.append(max(names, key=lambda name: len(branches(name, ignored) & missing)))
        missing -= branches(chosen[-1], ignored)
    return sorted(chosen)


REPRESENTATIVES = representatives()

every_model = pytest.mark.parametrize("name", REPRESENTATIVES)
every_other_model = pytest.mark.parametrize("name", sorted(set(MODELS) - set(REPRESENTATIVES)))
ORDERED = ("tree_rnn_second_order_bilinear", "child_sum")  # an equation that distinguishes children cannot sum them
OF_ANY_FORM = representatives(ignored=("form",))
IN_EACH_FORM = [(name, form) for name in OF_ANY_FORM for form in cells.FORMS if (name, form) != ORDERED]
every_model_in_each_form = pytest.mark.parametrize(("name", "form"), IN_EACH_FORM)
OF_EACH_KIND = ("tree_smu", "mtree_lstm", "tree_rnn_second_order")  # a stack, maps per child, products of children
FORM_OF_EACH = [*((name, "nary") for name in OF_ANY_FORM), *((name, "child_sum") for name in OF_EACH_KIND)]  # for time
every_name = pytest.mark.parametrize("name", sorted(MODELS))
needs_compiler = pytest.mark.skipif(bool(unavailable()), reason=unavailable())
if_traced = [needs_compiler, pytest.mark.slow]
traced = pytest.param("levels/traced", marks=if_traced)
every_engine = pytest.mark.parametrize("engine", ["levels", pytest.param("topo", marks=pytest.mark.slow)])


def make(name, seed=1, *, signature=MATH, vocabulary=VOCABULARY, hidden=HIDDEN, **settings):
    cell = cells.build(name, signature.inner, len(vocabulary), hidden, **settings)
    cell.reset_parameters(torch.Generator().manual_seed(seed))
    return cell.double().eval()


def some_trees(seed=3, count=8):
    rng = random.Random(seed)
    return [random_equation(rng, rng.randrange(2, 6)) if i % 2 else random_tree(rng, rng.randrange(5)) for i in range(count)]


def batch_of(*texts):
    return graph.from_expressions([Expression.parse(text) for text in texts], VOCABULARY)


def some_batch(seed=3, count=8, external=0):
    """A batch of `some_trees`. external: width of an external input."""
    batch, source = graph.from_expressions(some_trees(seed, count), VOCABULARY), torch.Generator().manual_seed(5)
    if external:
        batch.ndata["input"] = torch.randn(batch.num_nodes(), external, dtype=torch.float64, generator=source)
    return batch


def assert_equals_oracle(cell, trees, batch, inputs=None, noise=None, vocabulary=VOCABULARY):
    """Compare h, every other field and every signal of every node with those of the recursion."""
    start = 0
    for tree in trees:
        visited: dict = {}
        span = slice(start, start + tree.size)
        noise_of_tree = {field: factors[span] for field, factors in (noise or {}).items()}
        inputs_of_tree = None if inputs is None else inputs[span]
        recurse(cell, tree, vocabulary, inputs=inputs_of_tree, noise=noise_of_tree, visited=visited)
        for node, (state, signals) in visited.items():
            for field, shape in cell.fields.items():
                result = batch.ndata[field][start + node]
                expected = state[field].flatten() if state else torch.zeros_like(result)
                assert torch.allclose(result, expected, rtol=1e-10, atol=1e-10), (tree, node, field, shape)
            for signal in cell.signals:
                result = batch.ndata[f"signal/{signal}"][start + node]
                if signal in signals:
                    assert torch.allclose(result[: signals[signal].shape[1]], signals[signal][0], rtol=1e-10, atol=1e-10)
                else:
                    assert not result.any()
        start += tree.size


def states(cell, batch, signals):
    """All fields and these signals of all nodes, as the last engine wrote them."""
    return {name: batch.ndata[name] for name in (*cell.fields, *(f"signal/{signal}" for signal in signals))}


def row_gradients(cell):
    """The gradients of all parameters, those of operators by operator; None for what was not used."""
    rows = RowOptimizer(cell, OptimizerConfig())
    rows.collect()
    return {name: row.grad for name, row in rows.rows.items()}


def gradients(cell, batch, engine, noise, signals, options=None, signature=MATH):
    """The gradients of a scalar function of all states and signals: see `row_gradients`, and of external input."""
    rows = RowOptimizer(cell, OptimizerConfig())
    rows.zero()
    if cell.input_size:
        batch.ndata["input"] = batch.ndata["input"].detach().requires_grad_()
    propagate(batch, cell, engine=engine, signature=signature, signals=signals, noise=noise, options=options)
    values = states(cell, batch, signals).values()
    sum((value * torch.linspace(0.5, 1.5, value.shape[-1])).sin().sum() for value in values).backward()
    by_name = row_gradients(cell)
    return {**by_name, "external input": batch.ndata["input"].grad} if cell.input_size else by_name


def assert_same_gradients(cell, batch, engines, noise=None, signals=(), options=None, signature=MATH):
    """Compare the gradients, states and signals of an engine, or of each of several, with those of `topo`."""
    expected = gradients(cell, batch, "topo", noise, signals, options, signature)
    expected_states = states(cell, batch, signals)
    for engine in [engines] if isinstance(engines, str) else engines:
        results = gradients(cell, batch, engine, noise, signals, options, signature)
        for name, values in states(cell, batch, signals).items():
            assert torch.allclose(values, expected_states[name], rtol=1e-10, atol=1e-10), (engine, name)
        for parameter, gradient in expected.items():
            if gradient is None:
                assert results[parameter] is None, (engine, parameter)
            else:
                assert torch.allclose(results[parameter], gradient, rtol=1e-10, atol=1e-10), (engine, parameter)
