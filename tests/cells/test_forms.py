"""Every class and branch on trees of arity 1 to 5, n-ary and child-sum, with external input."""

import random

import pytest
import torch
from every_cell import VOCABULARY, assert_equals_oracle, every_engine, every_model_of_any_form

from dgl_treestack import cells
from dgl_treestack.cells import FORMS
from dgl_treestack.data import graph
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import Operator, Signature
from dgl_treestack.propagate import propagate

FIVE = Signature("five", tuple(Operator(f"f{arity}", arity) for arity in range(1, 6)))
ANY = Signature("any", (Operator("g", None), Operator("f", None)))
LEAVES = [("Symbol", "x"), ("Symbol", "y"), ("Integer", "2"), ("Number", "1.29")]
ORDERED = {"tree_rnn_second_order_bilinear"}  # what distinguishes children in its equation has no child-sum form

every_form = pytest.mark.parametrize("form", FORMS)


def trees(signature, seed=0, count=8):
    rng = random.Random(seed)
    return [tree(signature, rng, rng.randrange(1, 5)) for _ in range(count)]


def tree(signature, rng, depth):
    if depth == 0:
        return Expression.leaf(*rng.choice(LEAVES), signature=signature)
    operator = rng.choice(signature.operators)
    arity = operator.arity or rng.randrange(1, 6)
    depths = [depth - 1, *(rng.randrange(min(depth, 2)) for _ in range(arity - 1))]
    rng.shuffle(depths)
    return Expression.node(operator.name, *(tree(signature, rng, d) for d in depths))


def make(name, signature, form, **settings):
    cell = cells.build(name, signature.inner, len(VOCABULARY), 4, form=form, **settings)
    cell.reset_parameters(torch.Generator().manual_seed(1))
    return cell.double().eval()


def is_refused(name, form):
    """Whether a model has no such form; then asking for it is an error."""
    if name not in ORDERED or form != "child_sum":
        return False
    with pytest.raises(ConfigurationError, match="distinguishes children"):
        make(name, FIVE, form)
    return True


@every_engine
@every_form
@every_model_of_any_form
def test_equals_the_recursion(name, form, engine):
    if is_refused(name, form):
        return
    cell, expressions = make(name, FIVE, form, input_size=3), trees(FIVE)
    assert {arity for expression in expressions for arity in expression.arities} == {0, 1, 2, 3, 4, 5}
    batch = graph.from_expressions(expressions, VOCABULARY, FIVE)
    batch.ndata["input"] = torch.randn(batch.num_nodes(), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        propagate(batch, cell, engine=engine, signature=FIVE, signals=list(cell.signals))
        assert_equals_oracle(cell, expressions, batch, inputs=batch.ndata["input"])


@every_form
@every_model_of_any_form
def test_order_of_children_matters_unless_they_are_summed(name, form):
    if is_refused(name, form):
        return
    cell, rng = make(name, FIVE, form), random.Random(3)
    children = [tree(FIVE, rng, depth) for depth in (2, 0, 3, 1, 2)]
    orders = [children, children[::-1], [children[i] for i in (2, 0, 1, 4, 3)]]
    batch = graph.from_expressions([Expression.node("f5", *order) for order in orders], VOCABULARY, FIVE)
    with torch.no_grad():
        first, *reordered = propagate(batch, cell, signature=FIVE)[graph.roots(batch)]
    for h in reordered:
        assert torch.allclose(first, h, rtol=1e-10, atol=1e-12) == (form == "child_sum")


@every_model_of_any_form
def test_an_operator_of_any_arity_needs_the_child_sum_form(name):
    if is_refused(name, "child_sum"):
        return
    with pytest.raises(ConfigurationError, match="form child_sum"):
        make(name, ANY, "nary")
    cell, expressions = make(name, ANY, "child_sum", input_size=2), trees(ANY)
    batch = graph.from_expressions(expressions, VOCABULARY, ANY)
    batch.ndata["input"] = torch.randn(batch.num_nodes(), 2, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        propagate(batch, cell, signature=ANY, signals=list(cell.signals))
        assert_equals_oracle(cell, expressions, batch, inputs=batch.ndata["input"])


def test_an_unknown_form_is_an_error():
    with pytest.raises(ConfigurationError, match="child_sum"):
        make("tree_lstm", FIVE, "sum")
