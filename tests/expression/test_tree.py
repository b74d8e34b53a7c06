import random
from fractions import Fraction

import networkx as nx
import pytest
import sympy
from each_case import assert_raises, cases
from hypothesis import given
from hypothesis import strategies as st
from trees import expressions, random_equation

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression, number_value
from dgl_treestack.expression import networkx as network
from dgl_treestack.expression.operators import Operator, Signature


def test_structure():
    tree = Expression.parse("x + sin(2*y)")
    assert tree.names == ("Add", "Symbol", "sin", "Mul", "Integer", "Symbol")
    assert tree.heights == (3, 0, 2, 1, 0, 0)
    assert tree.children(0) == (1, 2)
    assert tree.children(3) == (4, 5)
    assert tree.ends == (6, 2, 6, 6, 5, 6)
    assert tree.subtree(3) == Expression.parse("2*y")
    assert tree.replace(3, Expression.parse("pi")) == Expression.parse("x + sin(pi)")
    assert [text for _, _, text in tree.leaves()] == ["x", "2", "y"]
    equations = ("x = y", "sin(x) = 1/csc(x)", "sin(x)**2 + cos(x)**2 = 1")
    assert [Equation.parse(text).depth for text in equations] == [1, 3, 4]  # with the equality


# What a careless number pattern would let through, and what the authors' files contain.
REFUSED = {
    "Integer": ["007", "00", "-01", "1.5", "1_0", "٣", "²", "+3", "1e3", "0x1", "--1", "3\u0660", "nan", "1" * 301],
    "Rational": ["1/0", "1/02", "01/2", "1/-2", "1.5", "1/2/3", "٣/2", "1_0/3", "2/", "+1/2", "1e3", "inf"],
    "Float": ["1_0.5", "٣.5", ".", "1e", "1e1234", "1e+-3", "1.5.2", "inf", "nan", "007", "1/2", "1e300", "1e", "1.5j"],
    "Number": ["1_0", "0." + "3" * 299, "1e1000", "-1e999", "00.5", "1,5", "1e٣", "e5", "Infinity", "0x1p3"],
    "": ["1_0", "٣", "1" * 301, "1e300", "1/0", "007", "", "0.5\n"],  # any of them
}
ACCEPTED = {
    "Integer": ["0", "-0", "-2", "-3", "10", "9" * 300],
    "Rational": ["2/5", "-1/2", "0", "-3", "2/4", "0/7"],
    "Float": ["0.7", "3.", "-2.5", "2", "+2", "1e299"],
    "Number": ["-0.3", "2.5", "0.25", ".5", "-.5", "1e5", "1E-5", "2.5e+07", "0." + "3" * 298, "1e-999", "0e999"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in REFUSED.items() for text in texts])
def test_a_number_is_refused_in_every_notation(kind, text):
    texts = {Expression.from_prefix: f"{kind}:{text}", Expression.parse: f"{kind}({text})"}
    for call, *arguments in [(number_value, text, kind), *([(Expression.leaf, kind, text), *texts.items()] if kind else [])]:
        with pytest.raises(ExpressionError):
            call(*arguments)


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in ACCEPTED.items() for text in texts])
def test_a_number_comes_back_as_written(kind, text):
    leaf = Expression.leaf(kind, text)
    tree = Expression.node("Pow", leaf, Expression.node("Add", leaf, leaf))
    assert Expression.parse(str(tree)) == tree == Expression.from_prefix(tree.prefix())


@given(st.sampled_from(sorted(ACCEPTED)), st.text("0123456789+-./eE_٣²( )xj", min_size=1, max_size=8))
def test_whatever_is_accepted_comes_back_as_written(kind, text):
    try:
        Expression.leaf(kind, text)
    except ExpressionError:
        return
    test_a_number_comes_back_as_written(kind, text)
    assert number_value(text) == Fraction(text)


@cases(
    *(("Half", "7", "1/2"), ("Half", "0.5", "1/2"), ("One", "2", "1"), ("NegativeOne", "1", "-1"), ("Pi", "((", "pi")),
    *(("Pi", "$\\frac$", "pi"), ("Exp1", "e", "E"), ("NaN", "NaN", "nan"), ("Infinity", "inf", "oo"), ("Blank", "__", "_")),
)
def test_a_constant_has_one_text(kind, text, own):
    for make in (lambda: Expression.leaf(kind, text), lambda: Expression.from_prefix(f"{kind}:{text}")):
        assert_raises(ExpressionError, f"{kind!r} has the text {own!r}, found .* Leave it out", make)
    assert Expression.from_prefix(f"{kind}:{own}") == Expression.leaf(kind) == Expression.parse(f"{kind}({own})")


def test_another_signature_brings_its_own_operators():
    lists = Signature("lists", (Operator("MAX", None), Operator("NOT", 1)))
    tree = Expression.from_prefix("MAX/3 Integer:1 NOT Integer:2 Integer:3", lists)
    assert tree.children(0) == (1, 2, 4)
    assert str(tree) == "MAX(1, NOT(2), 3)"
    assert Expression.from_prefix(tree.prefix(), lists) == tree
    assert_raises(ExpressionError, "Say how many: MAX/3", Expression.from_prefix, "MAX Integer:1", lists)


PLAIN = [("Symbol", "x"), ("Integer", "2"), ("Half", "1/2"), ("NegativeOne", "-1"), ("Pi", "pi"), ("Rational", "2/5")]


def test_to_sympy_and_back_and_from_ordinary_sympy():
    rng = random.Random(0)
    for _ in range(200):
        tree = random_equation(rng, rng.randrange(1, 6), leaves=PLAIN)
        assert Equation.from_sympy(tree.to_sympy()) == tree
    x, y = sympy.symbols("x y")
    tree = Expression.from_sympy(sympy.sin(x) ** 2 - y / 3 + sympy.log(x))
    assert sympy.simplify(tree.to_sympy().doit() - (sympy.sin(x) ** 2 - y / 3 + sympy.log(x))) == 0
    assert Expression.from_sympy(sympy.Float("1.29")).names == ("Number",)
    assert Expression.from_sympy(x + y + 1).arities[0] == 2


@given(expressions())
def test_round_trip_whatever_the_nodes_are_called(tree):
    graph = network.write(tree)
    renamed = nx.relabel_nodes(graph, {node: f"node {-node}" for node in graph})
    assert network.read(graph) == tree
    assert network.read(renamed) == tree
