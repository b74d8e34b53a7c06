import pytest

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression, number_value
from dgl_treestack.operators import Operator, Signature


def test_depth_counts_the_equality_node():
    assert Equation.parse("x = y").depth == 1
    assert Equation.parse("sin(x) = 1/csc(x)").depth == 3
    assert Equation.parse("sin(x)**2 + cos(x)**2 = 1").depth == 4


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


def test_sides_of_an_equation():
    equation = Equation.parse("x + 1 = _*y")
    assert (equation.left, equation.right) == (Expression.parse("x + 1"), Expression.parse("_*y"))
    assert Equation.of(equation.left, equation.right) == equation
    assert equation.blanks == (5,)


@pytest.mark.parametrize(
    ("names", "texts", "arities", "message"),
    [
        (("Add", "Symbol"), (None, "x"), (2, 0), "1 operand"),
        (("Symbol", "Symbol"), ("x", "y"), (0, 0), "complete before node 1 of 2"),
        (("Add", "Symbol"), (None, "x"), (1, 0), "'Add' takes 2 operands, found 1"),
        (("sinn", "Symbol"), (None, "x"), (1, 0), "Did you mean 'sin'"),
        (("sin", "Symbol"), ("text", "x"), (1, 0), "carries no text"),
        (("Symbol",), ("1x",), (0,), "cannot name a variable"),
        (("Symbol",), ("lambda",), (0,), "keyword"),
        (("Integer",), ("abc",), (0,), "not a number"),
        (("Number",), ("9" * 100,), (0,), "too long"),
        (("Number",), ("1e400",), (0,), "too large"),
        (("Integer",), (None,), (0,), "needs a text"),
        (("Symbol",), ("x",), (1,), "takes no operands"),
        ((), (), (), "1 operand"),
        (("Symbol",), (), (0,), "differ in length"),
    ],
)
def test_malformed_trees_are_refused(names, texts, arities, message):
    with pytest.raises(ExpressionError, match=message):
        Expression(names, texts, arities)


def test_an_equation_needs_its_root():
    with pytest.raises(ExpressionError, match="Add '='"):
        Equation.parse("x + 1")


def test_numbers_are_exact():
    assert number_value("2/5").numerator == 2
    assert number_value("1.29") * 100 == 129


def test_another_signature_brings_its_own_operators():
    lists = Signature("lists", (Operator("MAX", None), Operator("NOT", 1)))
    tree = Expression.from_prefix("MAX/3 Integer:1 NOT Integer:2 Integer:3", lists)
    assert tree.children(0) == (1, 2, 4)
    assert str(tree) == "MAX(1, NOT(2), 3)"
    assert Expression.from_prefix(tree.prefix(), lists) == tree
    with pytest.raises(ExpressionError, match="Say how many: MAX/3"):
        Expression.from_prefix("MAX Integer:1", lists)


def test_depth_twenty_thousand_parses_and_prints():
    tree = Expression.from_prefix("sin " * 20_000 + "Symbol:x")
    assert tree.depth == 20_000
    assert len(str(tree)) == 5 * 20_000 + 1
    assert Expression.from_prefix(tree.prefix()) == tree
