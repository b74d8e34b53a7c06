"""What texts, trees, graphs, objects of SymPy and files of languages can have wrong: one error that names it."""

from functools import partial

import networkx as nx
import pytest
import sympy
from each_case import assert_each

from dgl_treestack.errors import ConfigurationError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression import networkx as network
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import Operator, Signature

WORDS = Signature("words", (Operator("f", 1), Operator("g", 2), Operator("any", None)), words=True)
LOGIC, LISTS = find("logic"), find("listops")
ANYWHERE = -1  # in place of a column

INFIX = [  # text, message, column
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
    ("", "The text is empty", ANYWHERE),
    ("   ", "The text is empty", ANYWHERE),
    ("(" * 250 + "x" + ")" * 250, "too many nested parentheses", ANYWHERE),
    ("-" * 15_000 + "x", "prefix form", ANYWHERE),
    ("x" * 30_000, "prefix form", ANYWHERE),
    ("9" * 5000, "too long|Exceeds the limit", ANYWHERE),
]
WITHOUT = [  # a spelling that works
    *(("|x| = x", "no absolute value"), ("abs(x) = x", "no absolute value"), ("3! = 6", "no factorial"), ("∑x = 1", "Sums")),
    *(("diff(x) = 1", "derivatives"), ("x ≠ y", "one '='"), ("x < y", "one '='"), ("floor(x) = 1", "no such")),
    *(("lambda = 1", "word of Python"), ("[x + 1]*2 = 1", "parentheses"), ("sin(x) = ", "side of the equation is missing")),
    *(("é = 1", "Latin and Greek"), (r"\left(x\right) = 1", "parentheses")),
]
PREFIX = [
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
]
WORDS_IN_PREFIX = ['Word:"abc', 'Word:"a"b', "Word", "Word:", "Symbol:x", "any Word:1"]
BROKEN = {
    "": "There is no tree",
    "(": r"1 bracket\(s\) open",
    "(or a b": "column 8",
    "(or a b))": "closes nothing",
    "(or)": "'or' takes 2 operands, found 0",
    "(or a)": "'or' takes 2 operands, found 1",
    "(or a b) c": "complete before this.*\n.*\n.*column 10",
    "(foo a b)": r"an operator of 'logic' \(and, or, not, Pair\), here 'foo'",
    "[or a b]": r"no bracket of this notation. Write \( and \)",
    '(or "a b)': "no partner.\n.*\n.*column 5",
    '(or "a\\q" b)': "no quoted text",
    "(or a (": r"2 bracket\(s\) open",
    "()": "here nothing",
    "(or a ())": "here nothing\\.\n.*\n.*column 7",
    "((or a b))": "here a tree",
    "(not a b)": "takes 1 operand, found 2",
    " ) ": "closes nothing",
    '("or" a b)': "here 'or'",
    "(a (not b))": "here 'a'",
    "(a (or b) c)": "here 'a'",
    "((or a) b)": "an operator of 'logic'",
    "(or (or a) b)": "'or' takes 2 operands, found 1.\n.*\n.*column 6",
    "(a (or b c))": "here 'a'",
}
BROKEN_LISTS = {"( )": "There is no tree", "] [": "closes nothing", "[1 2 ]": "here '1'"}
TREES = [  # names, texts, arities, message
    (("Add", "Symbol"), (None, "x"), (2, 0), "1 operand"),
    (("Symbol", "Symbol"), ("x", "y"), (0, 0), "complete before node 1 of 2"),
    (("Add", "Symbol"), (None, "x"), (1, 0), "'Add' takes 2 operands, found 1"),
    (("sinn", "Symbol"), (None, "x"), (1, 0), "Did you mean 'sin'"),
    (("sin", "Symbol"), ("text", "x"), (1, 0), "carries no text"),
    (("Symbol",), ("1x",), (0,), "cannot name a variable"),
    (("Symbol",), ("lambda",), (0,), "keyword"),
    (("Integer",), ("abc",), (0,), "not a number"),
    (("Number",), ("9" * 301,), (0,), "too long"),
    (("Number",), ("1e400",), (0,), "too large"),
    (("Integer",), (None,), (0,), "needs a text"),
    (("Symbol",), ("x",), (1,), "takes no operands"),
    ((), (), (), "1 operand"),
    (("Symbol",), (), (0,), "differ in length"),
]
SYMPY = [
    (sympy.Integer(10) ** 5000, "Integer has too many digits"),
    (sympy.Rational(1, 3**12000), "Rational has too many digits"),
    (sympy.sin(sympy.Integer(10) ** 5000), "too many digits"),
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
SLOTS = [(0, 0), (1, 1), (0, 2), (-1, 0), (1, 2), (None, 0), (..., 0), ("0", "1"), (0.0, 1), ([], 1)]
FAULTS = {
    "": "The table \\[operators\\] is missing",
    "color = 1": "Unknown key 'color'",
    "[operators]": "operators",
    "[operators]\nf = 0": "'operators.f' is 0",
    "[operators]\nf = true": "'operators.f' is True",
    "[operators]\n'a b' = 2": "cannot be called 'a b'",
    "[operators]\nWord = 2": "cannot be called 'Word'",
    "notation = 'infix'\n[operators]\nf = 2": "Unknown notation 'infix'",
    "root = 'g'\n[operators]\nf = 2": "'root' is 'g'",
    "root = 'f'\n[operators]\nf = 3\ng = 1": "with 2 children",
    "root = 'f'\n[operators]\nf = 2": "no operator besides the root",
    "classes = ['a']\n[operators]\nf = 2": "at least two different names",
    "classes = ['a', 'a']\n[operators]\nf = 2": "at least two different names",
    "classes = ['-', 'a']\n[operators]\nf = 2": "No class may be called '-'",
    "classes = [1, 2]\n[operators]\nf = 2": "a list of texts",
    "classes = [\n": "other.toml: ",
    "classes = 'number'\n[operators]\nf = 2": 'or "numbers"',
    "classes = {a = ['0'], b = '1'}\n[operators]\nf = 2": "'classes.b' is '1'",
    "classes = {a = ['0'], b = ['0']}\n[operators]\nf = 2": "a label has two classes",
    "classes = {a = ['b'], b = ['0']}\n[operators]\nf = 2": "the name of another class",
    "classes = {a = ['0'], '-' = ['1']}\n[operators]\nf = 2": "at least two different names",
    "[operators]\nf = [2, 2]": "has a number twice",
    "[operators]\nf = []": "write its number of children",
    "[operators]\nf = [2, 'any']": "write its number of children",
    "notation = 'plain'\n[operators]\nf = 2\ng = [1, 2]": "can have one operator only",
}


def everything():
    """(name, what to call, message, column or ANYWHERE)."""
    for text, message, column in INFIX:
        yield f"infix {text[:40]!r}", partial(Expression.parse, text), message, column
    for text, message in WITHOUT:
        yield f"infix {text!r}", partial(Equation.parse, text), message, ANYWHERE
    for text, message, column in PREFIX:
        yield f"prefix {text[:40]!r}", partial(Expression.from_prefix, text), message, column
    for text in WORDS_IN_PREFIX:
        yield f"words {text!r}", partial(Expression.from_prefix, text, WORDS), ".", ANYWHERE
    for language, texts in ((LOGIC, BROKEN), (LISTS, BROKEN_LISTS)):
        for text, message in texts.items():
            yield f"{language.name} {text!r}", partial(Expression.parse, text, language), message, ANYWHERE
    for *arrays, message in TREES:
        yield f"tree {arrays}", partial(Expression, *arrays), message, ANYWHERE
    yield "an equation without its root", partial(Equation.parse, "x + 1"), "Put '='", ANYWHERE
    yield "a word in mathematics", partial(Expression.leaf, "Word", "x"), "Unknown operator or leaf class 'Word'", ANYWHERE
    yield "a symbol in words", partial(Expression.leaf, "Symbol", "x", WORDS), "or leaf class 'Symbol'", ANYWHERE
    for value, message in SYMPY:
        yield f"SymPy {message!s}", partial(Expression.from_sympy, value), message, ANYWHERE
    deep = Expression.from_prefix("sin " * 200 + "Symbol:x")
    yield "SymPy, deep", deep.to_sympy, "limit is 100", ANYWHERE
    for graph, message in NETWORKX:
        yield f"NetworkX {message}", partial(network.read, graph), message, ANYWHERE
    for slots in SLOTS:
        graph = tree_of([SUM, ("One", "1"), PI], [(1, 0, slots[0]), (2, 0, slots[1])])
        yield (
            f"NetworkX slots {slots}",
            partial(network.read, graph),
            r"slots of the children of 0 .* from 0 on, each once",
            ANYWHERE,
        )


def test_every_fault_is_one_error_with_its_column():
    assert_each(assert_refused, everything())


def assert_refused(call, message, column):
    with pytest.raises(ExpressionError, match=message) as caught:
        call()
    if column != ANYWHERE:
        assert caught.value.column == column and (column is None or f"^ column {column}" in str(caught.value))


def test_a_broken_language_is_one_error_with_its_file(tmp_path):
    file = tmp_path / "other.toml"

    def assert_refused(text, message):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=rf"other\.toml: .*{message}|{message}") as caught:
            find(str(file))
        assert str(caught.value).startswith(str(file))

    assert_each(assert_refused, [(repr(text), text, message) for text, message in FAULTS.items()])
