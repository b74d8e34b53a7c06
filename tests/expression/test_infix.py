import pytest
from hypothesis import given
from trees import expressions

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.infix import remark_on_names

ENCODINGS = {
    "1 + tan(x)**2 = sec(x)**2": "Equality Add Integer:1 Pow tan Symbol:x Integer:2 Pow sec Symbol:x Integer:2",
    "a - b": "Add Symbol:a Mul NegativeOne Symbol:b",
    **{"a/b": "Mul Symbol:a Pow Symbol:b NegativeOne", "1/a": "Pow Symbol:a NegativeOne", "1/2": "Pow Integer:2 NegativeOne"},
    **{"-x": "Mul NegativeOne Symbol:x", "-1": "NegativeOne", "-2": "Mul NegativeOne Integer:2"},
    **{"-x**2": "Mul NegativeOne Pow Symbol:x Integer:2", "x^2": "Pow Symbol:x Integer:2"},
    **{"x**y**z": "Pow Symbol:x Pow Symbol:y Symbol:z", "sqrt(x) == y": "Equality Pow Symbol:x Half Symbol:y"},
    **{"ln(x)": "log Symbol:x Exp1", "log(x, 2)": "log Symbol:x Integer:2", "arcsin(x)": "asin Symbol:x"},
    "sin(x)**2 + _ = 1": "Equality Add Pow sin Symbol:x Integer:2 Blank Integer:1",
    **{"pi*1.29": "Mul Pi Number:1.29", "one*half": "Mul One Half", "Rational(2/5)": "Rational:2/5"},
    **{"Number(-0.3)": "Number:-0.3", "  x\t+\n1 ": "Add Symbol:x Integer:1"},
}


def test_encodings():
    assert {text: Expression.parse(text).prefix() for text in ENCODINGS} == ENCODINGS


@given(expressions(), expressions(equation=True))
def test_what_is_printed_parses_back(tree, equation):
    assert Expression.parse(str(tree)) == tree == Expression.from_prefix(tree.prefix())
    assert Equation.parse(str(equation)) == equation


# The left side of an equation, what of it is refused, the spelling that works.
SPELLINGS = [("x^2y", "2y", "2*y"), ("1e5 + 2x", "2x", "2*x"), ("x·y", "·", "*"), ("x × y", "×", "*"), ("x − y", "−", "-")]
SPELLINGS += [("2*π", "π", "pi"), (r"x \cdot y", r"\cdot", "*")]
WHOLE = {"2x": "2*x", "2 x": "2*x", "3.5y": "3.5*y", "x y": "x*y", "(x-y)(x+y)": "(x-y)*(x+y)", "(x + 1) y": "(x + 1)*y"}
WHOLE |= {"2(x+1)": "2*(x+1)", "x(y+1)": "x*(y+1)", "sin(x)cos(x)": "sin(x)*cos(x)", "sin x": "sin(x)", "ln 2x": "ln(2*x)"}
WHOLE |= {"sin^2 x": "sin(x)**2", "cos**2(x + y)": "cos(x + y)**2", "tan^-1(x)": "atan(x)", "sin²(x)": "sin(x)**2"}
WHOLE |= {"sinh³ x": "sinh(x)**3", "x²": "x**2", "(x + 1)¹⁰": "(x + 1)**10", "√x": "sqrt(x)", "√(x + 1)": "sqrt(x + 1)"}
WHOLE |= {"∞": "oo", r"\pi": "pi", r"\frac{x}{2}": "(x)/(2)", r"\sqrt{x}": "sqrt(x)"}
SPELLINGS += [(text, text, spelling) for text, spelling in WHOLE.items()]
FUNCTIONS = {"log10": "log(x, 10)", "log2": "log(x, 2)", "cbrt": "x**(1/3)", "tg": "tan(x)", "arsinh": "asinh(x)"}
SPELLINGS += [(f"{name}(x)", "", spelling) for name, spelling in FUNCTIONS.items()]


@pytest.mark.parametrize(("text", "refused", "spelling"), SPELLINGS)
def test_the_spelling_that_works(text, refused, spelling):
    with pytest.raises(ExpressionError) as error:
        Equation.parse(f"{text} = 1")
    message = f"Write {spelling} for {refused}.".replace(" for .", ".")
    assert message in str(error.value) and "column" in str(error.value) and "Known" not in str(error.value)
    Equation.parse(f"{text.replace(refused or text, spelling)} = 1")


def test_an_error_elsewhere_gets_no_hint():
    for text in ("1e5 + foo(x) = sin(x)**2", "sin(x, y) = 2*x", "1.5e-3*(x = 2"):
        with pytest.raises(ExpressionError) as error:
            Equation.parse(text)
        assert "Write" not in str(error.value)


def test_greek_letters_are_variables_and_i_is_the_imaginary_unit():
    equation = Equation.parse("sin(α + 2*β_1)**2 = 1 - cos(α + 2*β_1)**2 + 0*Ω")
    assert {text for _, kind, text in equation.leaves() if kind == "Symbol"} == {"α", "β_1", "Ω"}
    assert Equation.parse(str(equation)) == equation == Equation.from_prefix(equation.prefix())
    assert Equation.parse("ϕ = 1/2") == Equation.parse("φ = 1/2")  # as Python reads them
    with pytest.raises(ExpressionError) as error:
        Equation.parse("α + sin(θ, 2) = 1")
    assert "column 5" in str(error.value)
    assert Equation.parse("I**2 = -1") == Equation.parse("sqrt(-1)**2 = -1")
    assert str(Equation.from_prefix("Equality Symbol:I Symbol:x")) == "Symbol(I) = x"


def test_names_that_look_like_constants_or_products():
    assert remark_on_names(["x", "i"]) == "Read as variables: i, x; I is the imaginary unit."
    assert "oo is infinity" in remark_on_names(["infinity"]) and "a product a*b" in remark_on_names(["ab", "x"])
    assert "sin(x)" in remark_on_names(["sinx"]) and "pi is the number" in remark_on_names(["Pi"])
    for names in (["x", "y"], ["x1", "x_2"], ["alpha", "theta"], ["α"], []):
        assert remark_on_names(names) == ""
