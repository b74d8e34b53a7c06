import random

import pytest
import sympy
from trees import random_equation

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression

PLAIN = [("Symbol", "x"), ("Integer", "2"), ("Half", "1/2"), ("NegativeOne", "-1"), ("Pi", "pi"), ("Rational", "2/5")]


def test_round_trip_keeps_the_tree():
    rng = random.Random(0)
    for _ in range(200):
        tree = random_equation(rng, rng.randrange(1, 6), leaves=PLAIN)
        assert Equation.from_sympy(tree.to_sympy()) == tree


def test_nothing_is_evaluated():
    assert str(Expression.parse("x + x").to_sympy()) == "x + x"
    assert Expression.parse("1 + 1").to_sympy() != 2


def test_from_ordinary_sympy():
    x, y = sympy.symbols("x y")
    tree = Expression.from_sympy(sympy.sin(x) ** 2 - y / 3 + sympy.log(x))
    assert sympy.simplify(tree.to_sympy().doit() - (sympy.sin(x) ** 2 - y / 3 + sympy.log(x))) == 0
    assert Expression.from_sympy(sympy.Float("1.29")).names == ("Number",)
    assert Expression.from_sympy(x + y + 1).arities[0] == 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (sympy.Integer(10) ** 5000, "Integer has too many digits"),
        (sympy.Rational(1, 3**12000), "Rational has too many digits"),
        (sympy.sin(sympy.Integer(10) ** 5000), "too many digits"),
        (sympy.Integer(10) ** 300, "too long: 301 characters"),
        (sympy.Float("0.1", 400), "too long"),
        (sympy.Float(10.0) ** 5000, "not a number of class 'Number'"),
        (sympy.Symbol("a b"), "without spaces"),
        (sympy.zoo, "Unknown SymPy function"),
        (sympy.gamma(sympy.Symbol("x")), "SymPy function 'gamma'"),
    ],
)
def test_numbers_that_no_leaf_can_hold(value, message):
    with pytest.raises(ExpressionError, match=message):
        Expression.from_sympy(value)


def test_limits():
    with pytest.raises(ExpressionError, match="limit is 100"):
        Expression.from_prefix("sin " * 200 + "Symbol:x").to_sympy()
