"""Losses at nodes: against their formulas, through every engine, with values of two languages."""

import collections
import itertools
import math
import random

import numpy as np
import pytest
import torch
from every_cell import needs_compiler
from torch.nn import functional
from trees import random_equation

from dgl_treestack import Example, Expression, Forest, Model, Operator, Signature, Vocabulary
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.model.signals import NodeSignals
from dgl_treestack.truth.subtrees import DEFINED, UNDEFINED, UNKNOWN, Targets, targets_of

POINTS = 4
SIGNALS = {"value": 1.0, "equivalence": 0.3, "points": POINTS}
LEAVES = [("Symbol", "x"), ("Symbol", "y"), ("Integer", "2"), ("Pi", "pi")]
MODELS = {
    "tree_slots": {"slots": 2, "head_settings": {"verification": {"compare": "slots"}}},
    "tree_lstm": {"dropout": 0.2},
    "tree_smu": {"dropout": 0.2, "masks": "subtree"},
    "tree_rnn_second_order": {},
}


def model_of(name, signals=SIGNALS, **settings):
    return Model.build(name, 8, signals=signals, seed=1, **{**MODELS.get(name, {}), **settings}).double()


def equations(count=12):
    rng = random.Random(0)
    trees = [random_equation(rng, rng.randrange(2, 5), unary=("sin", "exp"), leaves=LEAVES) for _ in range(count)]
    return [Example(tree, i % 2, str(i)) for i, tree in enumerate(trees)]


def signal_gradients(model, dataset, engine, **losses):
    """The loss of the signals alone on one batch, and the gradients of all parameters."""
    for name, weight in losses.items():
        setattr(model.signals, name, weight)
    model.train().zero_grad(set_to_none=True)
    batch = dataset.batch(np.arange(len(dataset)))
    forest, targets = batch.trees, targets_of(dataset.forest, POINTS)
    h = model.node_states(batch, engine, generator=torch.Generator().manual_seed(3))
    loss = model.signals(h, forest, targets, np.random.default_rng(5))
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}


VALUE, EQUIVALENCE = ({"value": value, "equivalence": 1 - value} for value in (1.0, 0.0))
ENGINES = [("levels", name, losses) for name in MODELS for losses in (VALUE, EQUIVALENCE)]
for model_name, losses in itertools.product(["tree_slots", "tree_lstm"], [VALUE, EQUIVALENCE]):
    ENGINES.append(pytest.param("levels/traced", model_name, losses, marks=needs_compiler))


@pytest.mark.parametrize(("engine", "name", "losses"), ENGINES)
def test_gradients_of_an_engine_equal_those_of_topo(engine, name, losses):
    model = model_of(name)
    dataset = model.prepare(equations())
    loss, gradients = signal_gradients(model, dataset, engine, **losses)
    expected, expected_gradients = signal_gradients(model, dataset, "topo", **losses)
    assert loss == pytest.approx(expected, rel=1e-12) and loss > 0
    of_products = [gradient for key, gradient in gradients.items() if key.startswith("cell.products")]
    assert any(gradient is not None and gradient.any() for gradient in of_products)
    for parameter, gradient in expected_gradients.items():
        if gradient is None:
            assert gradients[parameter] is None, parameter
        else:
            torch.testing.assert_close(gradients[parameter], gradient, rtol=1e-10, atol=1e-10, msg=parameter)


def test_an_encoder_takes_them_too():
    model = model_of("lstm")
    loss, gradients = signal_gradients(model, model.prepare(equations()), "levels")
    assert math.isfinite(loss) and gradients["cell.table"].any()


def value_loss(signals, h, targets, weights):
    """The loss of values, number by number."""
    distances, answers = [], []
    for row, (state, weight) in enumerate(zip(h, weights.tolist(), strict=True)):
        predicted = []
        for slot, part in enumerate(state.reshape(signals.slots, -1)):
            predicted += signals.outer[slot](functional.gelu(signals.inner(part))).reshape(-1, 3).tolist()
        for point, (real, imaginary, log_odds) in enumerate(predicted):
            status = targets.status[row, point]
            if status == DEFINED:
                gaps = [abs(real - targets.value[row, point, 0]), abs(imaginary - targets.value[row, point, 1])]
                distances.append((sum(gap**2 / 0.1 if gap < 0.05 else gap - 0.025 for gap in gaps) / 2, weight))
            if status != UNKNOWN:
                chance = 1 / (1 + math.exp(-log_odds))
                answers.append((-math.log(chance if status == DEFINED else 1 - chance), weight))
    columns = [np.transpose(losses) for losses in (distances, answers)]
    return sum(np.average(losses, weights=weight) for losses, weight in columns)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_the_loss_of_values(slots):
    signals = NodeSignals(8, value=1.0, points=POINTS, slots=slots).double()
    signals.reset_parameters(torch.Generator().manual_seed(0))
    rng, h, weights = np.random.default_rng(0), torch.randn(6, 8, dtype=torch.float64), torch.rand(6, dtype=torch.float64)
    status = rng.choice([UNKNOWN, DEFINED, UNDEFINED], (6, POINTS), p=[0.2, 0.6, 0.2]).astype(np.int8)
    targets = Targets(rng.normal(size=(6, POINTS, 2)).astype(np.float32), status, np.arange(6))
    value, known = torch.from_numpy(targets.value).double(), torch.from_numpy(status)
    everything = torch.ones(6, dtype=torch.bool)
    loss = signals._value_loss(h, value, known, weights, everything)
    assert loss.item() == pytest.approx(value_loss(signals, h, targets, weights), rel=1e-6)
    value[known != DEFINED] = 100.0  # what is undefined or unknown has no value
    assert signals._value_loss(h, value, known, weights, everything).item() == loss.item()
    mine = torch.tensor([True, False, False, True, True, False])
    shares = [signals._value_loss(h[part], value[part], known, weights, part).item() for part in (mine, ~mine)]
    assert sum(shares) == pytest.approx(loss.item())


def test_the_loss_of_equivalence():
    signals = NodeSignals(4, equivalence=1.0, temperature=0.5).double()
    h, classes = torch.randn(7, 4, dtype=torch.float64), [3, 1, 3, 3, 2, 1, 9]
    z, losses = functional.normalize(h, dim=1), []
    for i in range(7):
        friends = [j for j in range(7) if j != i and classes[j] == classes[i]]
        shares = {j: math.exp(z[i] @ z[j] / 0.5) for j in range(7) if j != i}
        if friends:
            losses.append(-sum(math.log(shares[j] / sum(shares.values())) for j in friends) / len(friends))
    loss = signals._equivalence_loss(h, torch.tensor(classes))
    assert loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-10)
    assert signals._equivalence_loss(h, torch.arange(7)).item() == 0.0  # nobody has company


def test_classes_choose_subtrees_come_first_and_whole():
    signals = NodeSignals(4, equivalence=1.0, rows=5)
    classes = np.array([7, 8, 9, 7, -1, 5, 5, 10, 7, -1])
    for seed in range(20):
        chosen = signals._choose_subtrees(classes, np.random.default_rng(seed))
        assert sorted(classes[chosen].tolist()) == [5, 5, 7, 7, 7] and len(set(chosen)) == 5
    signals.rows = 100
    assert len(signals._choose_subtrees(classes, np.random.default_rng(0))) == 8  # all but the two without a class


def test_every_height_counts_by_the_root_of_its_subtrees_and_states_meet_the_targets_of_theirs(monkeypatch):
    model = model_of("tree_rnn", {"value": 1.0, "points": POINTS})
    dataset, seen = model.prepare(equations(40)), []
    batch = dataset.batch(np.arange(40))
    monkeypatch.setattr(model.signals, "_value_loss", lambda h, _, __, weight, ___: seen.append((len(h), weight)) or h.sum())
    model.signals(model.node_states(batch), batch.trees, targets_of(dataset.forest, POINTS), np.random.default_rng())
    trees = [item.tree for item in dataset.items]
    subtrees = {(tree.heights[node], tree.subtree(node)) for tree in trees for node in range(1, tree.size)}
    counts = collections.Counter(height for height, _ in subtrees)
    ((rows, weight),) = seen
    assert rows == len(subtrees)
    assert sorted(weight.tolist()) == pytest.approx(sorted(counts[height] ** -0.5 for height, _ in subtrees))
    # A batch numbers its nodes anew; the rows of the targets are those of the forest of all training trees
    targets = targets_of(dataset.forest, POINTS)
    batch = dataset.batch(np.array([31, 2, 17]))
    nodes = [(i, node) for i in (31, 2, 17) for node in range(dataset.items[i].tree.size)]
    for (example, node), subtree in zip(nodes, batch.trees.subtree, strict=True):
        if node:
            own = dataset.forest.select([example])
            assert own.subtree[node] == subtree
            assert targets.status[subtree].any()


def test_settings_that_do_not_fit():
    for settings, message in (
        ({"slots": 3}, "'model.hidden' is 8, which the 3 slots"),
        ({"slots": 4, "points": 6}, "'signals.points' is 6, which the 4 slots"),
        ({"value": -1.0}, "'signals.value' is -1.0"),
        ({"temperature": 0.0}, "'signals.temperature' is 0.0"),
        ({"rows": 1}, "'signals.rows' is 1"),
        ({"value": 0.0, "equivalence": 1.0}, "without the value signal"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            NodeSignals(8, **{"value": 1.0, **settings}).predict_values(torch.zeros(1, 8))


def test_another_language_with_values():
    operators = (Operator("join", None, value=lambda *values: sum(values) + 1),)
    value_of = lambda text, point: len(text) + point  # noqa: E731
    language = Signature("lengths", operators, words=True, notation="brackets", leaf_value=value_of)
    trees = [Expression.parse(text, language) for text in ("(join aa b)", "(join a bb)", "(join a (join b c) d)")]
    forest = Forest.build(trees, Vocabulary.of_words(["aa", "b", "a", "bb", "c", "d"]), language)
    targets = targets_of(forest, 2)
    roots = forest.subtree[forest.offsets[:-1]]
    assert np.sinh(targets.value[roots, :, 0]).round(3).tolist() == [[4, 6], [4, 6], [6, 10]]
    assert targets.value_class[roots[0]] == targets.value_class[roots[1]] != targets.value_class[roots[2]]


@pytest.mark.parametrize("leaf_value", [None, lambda text, point: 1.0])
def test_a_language_without_values_is_refused(leaf_value):
    value = None if leaf_value else sum
    language = Signature("bare", (Operator("f", 1, value=value),), words=True, notation="brackets", leaf_value=leaf_value)
    forest = Forest.build([Expression.parse("(f a)", language)], Vocabulary.of_words(["a"]), language)
    with pytest.raises(ConfigurationError, match=r"in the language 'bare' (the operator 'f'|its leaves)"):
        targets_of(forest, 2)
