import time

import pytest
from hypothesis import given, settings
from trees import expressions

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("1 + tan(x)**2 = sec(x)**2", "Equality Add Integer:1 Pow tan Symbol:x Integer:2 Pow sec Symbol:x Integer:2"),
        ("a - b", "Add Symbol:a Mul NegativeOne Symbol:b"),
        ("a/b", "Mul Symbol:a Pow Symbol:b NegativeOne"),
        ("1/a", "Pow Symbol:a NegativeOne"),
        ("1/2", "Pow Integer:2 NegativeOne"),
        ("-x", "Mul NegativeOne Symbol:x"),
        ("-1", "NegativeOne"),
        ("-2", "Mul NegativeOne Integer:2"),
        ("-x**2", "Mul NegativeOne Pow Symbol:x Integer:2"),
        ("x^2", "Pow Symbol:x Integer:2"),
        ("x**y**z", "Pow Symbol:x Pow Symbol:y Symbol:z"),
        ("sqrt(x) == y", "Equality Pow Symbol:x Half Symbol:y"),
        ("ln(x)", "log Symbol:x Exp1"),
        ("log(x, 2)", "log Symbol:x Integer:2"),
        ("arcsin(x)", "asin Symbol:x"),
        ("pi*1.29", "Mul Pi Number:1.29"),
        ("sin(x)**2 + _ = 1", "Equality Add Pow sin Symbol:x Integer:2 Blank Integer:1"),
        ("one*half", "Mul One Half"),
        ("Rational(2/5)", "Rational:2/5"),
        ("Number(-0.3)", "Number:-0.3"),
        ("  x\t+\n1 ", "Add Symbol:x Integer:1"),
    ],
)
def test_encodings(text, prefix):
    assert Expression.parse(text).prefix() == prefix


@given(expressions(), expressions(equation=True))
def test_what_is_printed_parses_back(tree, equation):
    assert Expression.parse(str(tree)) == tree and Equation.parse(str(equation)) == equation


@settings(max_examples=50)
@given(expressions(most=120))
def test_prefix_parses_back(tree):
    assert Expression.from_prefix(tree.prefix()) == tree


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("sin x", "invalid syntax", 5),
        ("x +", "invalid syntax", 4),
        ("x^2 + $", "invalid syntax", 7),
        ("f(x)", "Unknown function 'f'", 1),
        ("1 + sine(x)", "Did you mean 'sin", 5),
        ("x = y = z", "exactly one '='", 9),
        ("sin(x = y)", "not part of an expression", 5),
        ("x <= y", "exactly one '='", 6),
        ("sin", "argument in parentheses", 1),
        ("x + é", "Latin and Greek", 5),
        ("log(1, 2, 3)", "takes 2 operand", 1),
        ("__import__('os').system('true')", "Only calls such as sin", 1),
        ("__import__('os')", "Unknown function '__import__'", 1),
        ("().__class__", "Attribute is not part", 1),
        ("[x for x in y]", "ListComp is not part", 1),
        ("lambda: 1", "Lambda is not part", 1),
        ("'text'", "not a number", 1),
        ("1_000", "not a number", 1),
        ("True", "not a number", 1),
        ("x @ y", "MatMult is unknown", 1),
        ("sin(*x)", "Only calls", 1),
        ("Rational(1/0)", "not a number", 1),
        ("x := 1", "invalid syntax", 3),
        ("x = x # + 1", "'#' is not part of an expression", 7),
        ("# x", "'#' is not part of an expression", 1),
        ("0x1/x", "'0x1' is not a number", 1),
        ("-0b1", "'0b1' is not a number", 2),
        ("x + 00", "'00' is not a number", 5),
        ("x + 1e1000", "not a number", 5),
        ("x + 1e300", "too large", 5),
        ("x + 0." + "3" * 299, "too long: 301 characters", 5),
        ("x*Half(7)", "'Half' has the text '1/2', found '7'", 3),
        ("x + Integer(1.5)", "not a number of class 'Integer'", 5),
        ("x + Integer(1_0)", "not a number of class 'Integer'", 5),
        ("  x^2 = f(y)", "Unknown function 'f'", 9),
        ("  x^2 = ", "invalid syntax", 9),
    ],
)
def test_errors_point_at_the_column(text, message, column):
    with pytest.raises(ExpressionError, match=message) as caught:
        Expression.parse(text)
    assert caught.value.column == column
    assert f"^ column {column}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The text is empty"),
        ("   ", "The text is empty"),
        ("(" * 250 + "x" + ")" * 250, "too many nested parentheses"),
        ("-" * 15_000 + "x", "prefix form"),
        ("x" * 30_000, "prefix form"),
        ("9" * 5000, "too long|Exceeds the limit"),
    ],
)
def test_caps_give_one_error(text, message):
    with pytest.raises(ExpressionError, match=message):
        Expression.parse(text)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("Add Symbol:x Sinn:y", "Unknown operator", 14),
        ("sin/x Symbol:x", "not a number of operands", 1),
        ("Add Add/² One One", "not a number of operands", 5),
        ("Add/" + "9" * 5000, "'9{30}' is not a number of operands", 1),
        ("Add/٢ One One", "not a number of operands", 1),
        ("Add/0", "not a number of operands", 1),
        ("Add Symbol:1x One", "cannot name a variable", None),
        ("Add/3 One One One", "takes 2 operands", None),
        ("Add One", "1 operand", None),
        ("One One", "complete before node 1", None),
        ("", "1 operand", None),
    ],
)
def test_errors_of_prefix_text(text, message, column):
    with pytest.raises(ExpressionError, match=message) as caught:
        Expression.from_prefix(text)
    assert caught.value.column == column


def test_constants_need_no_text():
    assert Expression.from_prefix("Add Pi One").texts == (None, "pi", "1")


def test_towers_are_parsed_not_computed():
    start = time.process_time()
    assert Equation.parse("9**9**9**9 = x").depth == 4
    assert time.process_time() - start < 10


def test_deep_trees_print_without_recursion():
    tree = Expression.from_prefix("Add Symbol:x " * 5000 + "Symbol:y")
    assert str(tree).count("+") == 5000
