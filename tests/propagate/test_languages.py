"""Conformance over languages other than mathematics: up to 20 children, unary chains, leaves alone, one operator."""

import random

import pytest
import torch
from each_case import assert_each, assert_raises
from every_cell import MODELS, assert_equals_oracle, assert_same_gradients, every_model, make, needs_compiler, row_gradients

from dgl_treestack import Expression, Operator, Signature, Vocabulary
from dgl_treestack.data import graph
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate import draw_noise

VOCABULARY = Vocabulary.of_words("abc")
WORDS = ["a", "b", "c", "in no vocabulary"]
ARITIES = range(1, 21)
WIDE = Signature("wide", (*(Operator(f"f{arity}", arity) for arity in ARITIES), Operator("g20", 20)), words=True)
ANY = Signature("any", (Operator("f", None),), words=True)
UNARY = Signature("unary", (Operator("f", 1),), words=True)
BINARY = Signature("binary", (Operator("f", 2),), words=True)
NO_OPERATOR = Signature("no operator", (), words=True)


def leaves(signature, count, rng):
    return [Expression.leaf("Word", rng.choice(WORDS), signature) for _ in range(count)]


def chain(length):
    return Expression.from_prefix("f " * length + "Word:b", UNARY)


def over_each_other(signature, operators, rng):
    """Random trees, of depth 4 at most, in which each of these (name, number of children) stands over a node and leaves.

    Where no earlier tree is below it, the node is the first operator of the signature over leaves.
    """
    first, trees = signature.operators[0], []
    for name, arity in rng.sample(operators, len(operators)):
        lower = [i for i, tree in enumerate(trees) if tree.depth < 4]
        taken = sorted(rng.sample(lower, rng.randrange(min(arity, len(lower), 3) + 1)), reverse=True)
        children = [trees.pop(i) for i in taken] or [Expression.node(first.name, *leaves(signature, first.arity or 1, rng))]
        children += leaves(signature, arity - len(children), rng)
        trees.append(Expression.node(name, *rng.sample(children, arity)))
    return trees


def some_trees():
    rng = random.Random(0)
    return {
        "20 arities": over_each_other(WIDE, [(operator.name, operator.arity) for operator in WIDE.operators] * 2, rng),
        "any arity": over_each_other(ANY, [("f", arity) for arity in ARITIES] * 2, rng),
        "chains": [chain(length) for length in (1, 7, 30)],
        "one operator": over_each_other(BINARY, [("f", 2)] * 24, rng),
        "no operator": leaves(NO_OPERATOR, 6, rng),
        "leaves only": leaves(WIDE, 6, rng),
        "leaves among trees": [*leaves(BINARY, 2, rng), *over_each_other(BINARY, [("f", 2)] * 3, rng), *leaves(BINARY, 1, rng)],
    }


TREES = some_trees()
# Three models that sum children, and one without that form, whose weights in the n-ary form do not depend on their number
OF_ANY_ARITY = {"tree_lstm_child_sum", "tree_smu_child_sum", "tree_slots_child_sum", "tree_rnn_second_order_bilinear"}

over = pytest.mark.parametrize(
    "language", [pytest.param(name, marks=pytest.mark.slow) if name in ("any arity", "chains") else name for name in TREES]
)
some_models = pytest.mark.parametrize("name", ["tree_lstm", "tree_lstm_child_sum", "tree_smu"])


def cell_of(name, signature, **settings):
    return make(name, signature=signature, vocabulary=VOCABULARY, hidden=3, **settings).train()


def cell_over(name, language, **settings):
    form = {"form": "child_sum"} if language == "any arity" and name not in OF_ANY_ARITY else {}
    return cell_of(name, TREES[language][0].signature, **form, **settings)


def batch_of(trees):
    return graph.from_expressions(trees, VOCABULARY, trees[0].signature)


def test_an_operator_of_any_arity_is_refused_by_all_other_models():
    def check(name, message, **settings):
        assert_raises(ConfigurationError, message, cell_of, name, ANY, **settings)

    message = "'f' takes any number of children, but a weight of this cell depends on the number. Use the form child_sum"
    assert_each(check, [(name, name, message) for name in sorted(set(MODELS) - OF_ANY_ARITY)])
    bilinear = "factors='bilinear' distinguishes children; the form child_sum does not"
    check("tree_rnn_second_order_bilinear", bilinear, form="child_sum")


@over
@every_model
def test_conforms(name, language):
    """States, signals and gradients of `levels` to those of `topo`, states and signals to those of the recursion."""
    cell, trees = cell_over(name, language, dropout=0.3), TREES[language]
    batch, signature = batch_of(trees), trees[0].signature
    noise = draw_noise(cell, batch, torch.Generator().manual_seed(0), signature=signature)
    assert_same_gradients(cell, batch, "levels", noise, list(cell.signals), signature=signature)
    with torch.no_grad():
        assert_equals_oracle(cell, trees, batch, noise=noise, vocabulary=VOCABULARY)
    of_weights = [gradient for key, gradient in row_gradients(cell).items() if key.startswith("products.")]
    if any(tree.size > 1 for tree in trees):
        assert all(gradient.any() for gradient in of_weights)
    else:
        assert of_weights == [None] * len(of_weights)


@pytest.mark.slow
@needs_compiler
@over
@some_models
def test_native_loops_conform(name, language):
    trees = TREES[language]
    assert_same_gradients(cell_over(name, language), batch_of(trees), "levels/traced", signature=trees[0].signature)


@pytest.mark.slow
@needs_compiler
def test_native_code_conforms(cache):
    """A kernel per number of children: few of them, for time. Leaves among trees, leaves alone, and no operator."""
    few_arities = over_each_other(WIDE, [("f1", 1), ("f3", 3)] * 3, random.Random(0))
    for trees in ([*TREES["leaves only"], *few_arities, *TREES["leaves only"]], TREES["leaves only"], TREES["no operator"]):
        cell, batch = cell_of("tree_lstm_child_sum", trees[0].signature), batch_of(trees)
        assert_same_gradients(cell, batch, ["levels", "levels/compiled"], signature=trees[0].signature)
    assert any(cache.glob("*.pt2"))
