"""What texts, trees, graphs, objects of SymPy and files of languages can have wrong: one error that names it."""

import networkx as nx
import pytest
import sympy
from each_case import assert_each, assert_raises, cases

from dgl_treestack import Equation, Expression, Operator, Signature
from dgl_treestack.errors import ConfigurationError, ExpressionError
from dgl_treestack.expression import networkx as network
from dgl_treestack.expression.language import find

WORDS = Signature("words", (Operator("f", 1), Operator("g", 2), Operator("any", None)), words=True)
LOGIC, LISTS = find("logic"), find("listops")
ANYWHERE = -1  # in place of a column

INFIX = {  # message -> text -> column
    "invalid syntax": {"sin x": 5, "x +": 4, "x^2 + $": 7, "x := 1": 3, "  x^2 = ": 9},
    "Unknown function 'f'": {"f(x)": 1, "  x^2 = f(y)": 9},
    "Did you mean 'sin": {"1 + sine(x)": 5},
    "exactly one '='": {"x = y = z": 9, "x <= y": 6},
    "not part of an expression": {"sin(x = y)": 5},
    "argument in parentheses": {"sin": 1},
    "takes 2 operand": {"log(1, 2, 3)": 1},
    "Only calls such as sin": {"__import__('os').system('true')": 1, "sin(*x)": 1},
    "Attribute is not part": {"().__class__": 1},
    "ListComp is not part": {"[x for x in y]": 1},
    "Lambda is not part": {"lambda: 1": 1},
    "MatMult is unknown": {"x @ y": 1},
    "not a number": {"'text'": 1, "1_000": 1, "True": 1, "Rational(1/0)": 1},
    "'#' is not part of an expression": {"x = x # + 1": 7},
    "'0x1' is not a number": {"0x1/x": 1},
    "'00' is not a number": {"x + 00": 5},
    "too large": {"x + 1e300": 5},
    "too long: 301 characters": {"x + 0." + "3" * 299: 5},
    "'Half' has the text '1/2', found '7'": {"x*Half(7)": 3},
    "not a number of class 'Integer'": {"x + Integer(1.5)": 5},
    "The text is empty": {"": ANYWHERE, "   ": ANYWHERE},
    "too many nested parentheses": {"(" * 250 + "x" + ")" * 250: ANYWHERE},
    "prefix form": {"-" * 15_000 + "x": ANYWHERE, "x" * 30_000: ANYWHERE},
    "too long|Exceeds the limit": {"9" * 5000: ANYWHERE},
}
WITHOUT = [  # a spelling that works
    *(("|x| = x", "no absolute value"), ("abs(x) = x", "no absolute value"), ("3! = 6", "no factorial"), ("∑x = 1", "Sums")),
    *(("diff(x) = 1", "derivatives"), ("x ≠ y", "one '='"), ("x < y", "one '='"), ("floor(x) = 1", "no such")),
    *(("lambda = 1", "word of Python"), ("[x + 1]*2 = 1", "parentheses"), ("sin(x) = ", "side of the equation is missing")),
    *(("1 + é = 1", "Latin and Greek.*\n.*\n.*column 5"), (r"\left(x\right) = 1", "parentheses"), ("x + 1", "Put '='")),
]
PREFIX = {
    "Unknown operator": {"Add Symbol:x Sinn:y": 14},
    "not a number of operands": {"sin/x Symbol:x": 1, "Add Add/² One One": 5, "Add/٢ One One": 1, "Add/0": 1},
    "'9{30}' is not a number of operands": {"Add/" + "9" * 5000: 1},
    "cannot name a variable": {"Add Symbol:1x One": None},
    "takes 2 operands": {"Add/3 One One One": None},
    "1 operand": {"Add One": None, "": None},
    "complete before node 1 of 2": {"One One": None},
}
WORDS_IN_PREFIX = [(text, ".") for text in ('Word:"abc', 'Word:"a"b', "Word", "Word:", "any Word:1")]
WORDS_IN_PREFIX += [("Symbol:x", "Unknown operator 'Symbol:x'")]
BROKEN = {
    "": "There is no tree",
    "(": r"1 bracket\(s\) open",
    "(or a b": "column 8",
    "(or a b))": "closes nothing",
    "(or a)": "'or' takes 2 operands, found 1",
    "(or a b) c": "complete before this.*\n.*\n.*column 10",
    "(foo a b)": r"an operator of 'logic' \(and, or, not, Pair\), here 'foo'",
    "[or a b]": r"no bracket of this notation. Write \( and \)",
    '(or "a b)': "no partner.\n.*\n.*column 5",
    '(or "a\\q" b)': "no quoted text",
    "()": "here nothing",
    "(or a ())": "here nothing\\.\n.*\n.*column 7",
    "((or a b))": "here a tree",
    " ) ": "closes nothing",
    '("or" a b)': "here 'or'",
    "(or (or a) b)": "'or' takes 2 operands, found 1.\n.*\n.*column 6",
}
BROKEN_LISTS = {"( )": "There is no tree", "] [": "closes nothing", "[1 2 ]": "here '1'"}
TREES = [  # names, texts, arities, message
    (("Add", "Symbol"), (None, "x"), (1, 0), "'Add' takes 2 operands, found 1"),
    (("sinn", "Symbol"), (None, "x"), (1, 0), "Did you mean 'sin'"),
    (("sin", "Symbol"), ("text", "x"), (1, 0), "carries no text"),
    (("Symbol",), ("lambda",), (0,), "keyword"),
    (("Word",), ("x",), (0,), "Unknown operator or leaf class 'Word'"),
    (("Symbol",), ("x",), (0,), WORDS, "or leaf class 'Symbol'"),
    (("Integer",), (None,), (0,), "needs a text"),
    (("Symbol",), ("x",), (1,), "takes no operands"),
    ((), (), (), "1 operand"),
    (("Symbol",), (), (0,), "differ in length"),
]
SYMPY = [
    (sympy.Integer(10) ** 5000, "Integer has too many digits"),
    (sympy.Rational(1, 3**12000), "Rational has too many digits"),
    (sympy.Integer(10) ** 300, "too long: 301 characters"),
    (sympy.Float("0.1", 400), "too long"),
    (sympy.Float(10.0) ** 5000, "not a number of class 'Number'"),
    (sympy.Symbol("a b"), "without spaces"),
    (sympy.zoo, "Unknown SymPy function"),
    (sympy.gamma(sympy.Symbol("x")), "SymPy function 'gamma'"),
]


def tree_of(nodes, edges):
    """A graph of (name, text) nodes and (child, parent, slot) edges; `...` stands for what is missing."""
    graph = nx.DiGraph()
    for i, (name, text) in enumerate(nodes):
        graph.add_node(i, **{key: value for key, value in (("name", name), ("text", text)) if value is not ...})
    for child, parent, slot in edges:
        graph.add_edge(child, parent, **({} if slot is ... else {"slot": slot}))
    return graph


SINE, PI, SUM = ("sin", None), ("Pi", "pi"), ("Add", None)

NETWORKX = [
    (tree_of([SINE, SINE, PI], [(0, 1, 0), (1, 0, 0)]), r"1 nodes connected to one root.* Take cycles out"),
    (tree_of([SINE], [(0, 0, 0)]), "0 roots"),
    (tree_of([PI, PI], []), "2 roots"),
    (tree_of([(1, "x")], []), "The node 0 has the name 1"),
    (tree_of([("Pi", 1)], []), "The node 0 has the text 1"),
    (tree_of([(..., "x")], []), "The node 0 has no name"),
    (tree_of([("Pi", ...)], []), "The node 0 has no text"),
    (nx.Graph(), r"read from a networkx\.DiGraph"),
    (nx.MultiDiGraph(), r"read from a networkx\.DiGraph"),
]
NETWORKX += [
    (tree_of([SUM, ("One", "1"), PI], [(1, 0, first), (2, 0, second)]), "slots of the children of 0 .* from 0 on, each once")
    for first, second in [(0, 0), (1, 1), (0, 2), (-1, 0), (1, 2), (None, 0), (..., 0), ("0", "1"), (0.0, 1), ([], 1)]
]
TABLES = (  # how it is read, rows of what is given, message, and perhaps column
    (Expression.parse, [(text, message, column) for message, texts in INFIX.items() for text, column in texts.items()]),
    (Equation.parse, WITHOUT),
    (Expression.from_prefix, [(text, message, column) for message, texts in PREFIX.items() for text, column in texts.items()]),
    (lambda text: Expression.from_prefix(text, WORDS), WORDS_IN_PREFIX),
    (lambda text: Expression.parse(text, LOGIC), BROKEN.items()),
    (lambda text: Expression.parse(text, LISTS), BROKEN_LISTS.items()),
    (lambda arrays: Expression(*arrays), [(arrays, message) for *arrays, message in TREES]),
    (Expression.from_sympy, SYMPY),
    (Expression.to_sympy, [(Expression.from_prefix("sin " * 200 + "Symbol:x"), "limit is 100")]),
    (network.read, NETWORKX),
)


def test_every_fault_is_one_error_with_its_column():
    assert_each(assert_refused, [(row[1], read, *row) for read, rows in TABLES for row in rows])


def assert_refused(read, given, message, column=ANYWHERE):
    with pytest.raises(ExpressionError, match=message) as caught:
        read(given)
    if column != ANYWHERE:
        assert caught.value.column == column and (column is None or f"^ column {column}" in str(caught.value))


@cases(
    ("", "The table \\[operators\\] is missing"),
    ("color = 1", "Unknown key 'color'"),
    ("[operators]", "operators"),
    ("[operators]\nf = 0", "'operators.f' is 0"),
    ("[operators]\nf = true", "'operators.f' is True"),
    ("[operators]\n'a b' = 2", "cannot be called 'a b'"),
    ("[operators]\nWord = 2", "cannot be called 'Word'"),
    ("notation = 'infix'\n[operators]\nf = 2", "Unknown notation 'infix'"),
    ("root = 'g'\n[operators]\nf = 2", "'root' is 'g'"),
    ("root = 'f'\n[operators]\nf = 3\ng = 1", "with 2 children"),
    ("root = 'f'\n[operators]\nf = 2", "no operator besides the root"),
    ("classes = ['a', 'a']\n[operators]\nf = 2", "at least two different names"),
    ("classes = ['-', 'a']\n[operators]\nf = 2", "No class may be called '-'"),
    ("classes = [1, 2]\n[operators]\nf = 2", "a list of texts"),
    ("classes = [\n", ": "),
    ("classes = 'number'\n[operators]\nf = 2", 'or "numbers"'),
    ("classes = {a = ['0'], b = '1'}\n[operators]\nf = 2", "'classes.b' is '1'"),
    ("classes = {a = ['0'], b = ['0']}\n[operators]\nf = 2", "a label has two classes"),
    ("classes = {a = ['b'], b = ['0']}\n[operators]\nf = 2", "the name of another class"),
    ("[operators]\nf = [2, 2]", "has a number twice"),
    ("[operators]\nf = [2, 'any']", "write its number of children"),
    ("notation = 'plain'\n[operators]\nf = 2\ng = [1, 2]", "can have one operator only"),
)
def test_a_broken_language_is_one_error_with_its_file(tmp_path, text, message):
    file = tmp_path / "other.toml"
    file.write_text(text)
    assert_raises(ConfigurationError, f"(?s)^{file}.*{message}", find, str(file))
