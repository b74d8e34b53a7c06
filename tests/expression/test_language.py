import pickle

import pytest
from each_case import assert_each
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.cells import build
from dgl_treestack.errors import ConfigurationError, DataError, ExpressionError
from dgl_treestack.expression import Equation, Expression, notations
from dgl_treestack.expression.language import find, from_dict, languages, read, register_language, to_toml
from dgl_treestack.expression.operators import MATH, Operator, Signature

LISTS, LOGIC = find("listops"), find("logic")
WORDS = Signature("words", (Operator("f", 1), Operator("g", 2), Operator("any", None)), words=True)


@st.composite
def trees_of_words(draw, signature=WORDS):
    """Trees whose leaves are any text."""
    nodes, missing = [], 1
    while missing:
        operator = draw(st.sampled_from(signature.operators)) if len(nodes) < 8 and draw(st.booleans()) else None
        if operator is None:
            nodes.append(("Word", draw(st.text(st.characters(codec="utf-8"), min_size=1)), 0))
        else:
            nodes.append((operator.name, None, operator.arity or draw(st.integers(1, 4))))
        missing += nodes[-1][2] - 1
    return Expression.from_nodes(nodes, signature)


@given(trees_of_words())
def test_any_text_is_a_leaf_in_every_notation(tree):
    assert Expression.from_prefix(tree.prefix(), WORDS) == tree
    for notation in ("brackets", "lists"):
        language = Signature("words", WORDS.operators, words=True, notation=notation)
        assert Expression.parse(str(Expression(tree.names, tree.texts, tree.arities, language)), language) == tree


@given(trees_of_words())
def test_any_text_is_a_leaf_in_brackets_without_operators(tree):
    name_of_arity = {0: "Word", 1: "f", 2: "g"}
    names = tuple(name_of_arity.get(arity, "any") for arity in tree.arities)
    for notation in ("plain", "labelled"):
        language = Signature("words", WORDS.operators, words=True, notation=notation)
        expected = Expression(names, tree.texts, tree.arities, language)
        assert Expression.parse(str(expected), language) == expected
    labels = [f"{text} (" for text in map(str, tree.texts)]
    written = notations.write(tree, labels, "labelled")
    assert notations.read(written, language) == (list(zip(names, tree.texts, tree.arities, strict=True)), labels)


def test_operators_split_by_their_number_of_children():
    language = from_dict({"name": "split", "notation": "lists", "operators": {"MAX": [2, 3], "NOT": 1}})
    tree = Expression.parse("[MAX 2 [MAX 1 [NOT 2 ] 3 ] ]", language)
    assert tree.names == ("MAX/2", "Word", "MAX/3", "Word", "NOT", "Word", "Word")
    assert str(tree) == "[MAX 2 [MAX 1 [NOT 2 ] 3 ] ]" and Expression.from_prefix(tree.prefix(), language) == tree
    for text in ("MAX/4 Word:1 Word:2 Word:3 Word:4", "MAX Word:1 Word:2", "MAX/2 Word:1"):
        with pytest.raises(ExpressionError):
            Expression.from_prefix(text, language)
    cell = build("tree_lstm", language.inner, 4, 5)
    shapes = {name: tuple(parameter.shape) for name, parameter in cell.products["gates"].state_dict().items()}
    assert shapes["weight_MAX/2"][1] == 10 and shapes["weight_MAX/3"][1] == 15


def test_labels_by_the_rules_of_a_language():
    classes = {"bad": ["0", "1"], "good": ["good", "3"], "-": ["2"]}
    language = from_dict({"name": "l", "classes": classes, "operators": {"f": 1}})
    assert [language.label(text) for text in ("0", 1, "bad", "good", "3", "2", "-")] == ["bad"] * 3 + ["good"] * 2 + [None] * 2
    numbers = from_dict({"name": "n", "classes": "numbers", "operators": {"f": 1}})
    assert [numbers.label(text) for text in ("2", -1.5, "-", "1e3")] == [2.0, -1.5, None, 1000.0]
    for signature, label in ((language, "4"), (language, True), (numbers, "inf"), (numbers, True), (numbers, "x")):
        with pytest.raises(DataError, match="label"):
            signature.label(label)


def test_a_program_may_register_a_language():
    language = Signature("test of languages", (Operator("f", 1),), words=True, notation="brackets")
    assert register_language(language) is register_language(language) is find("test of languages")
    del languages()["test of languages"]
    with pytest.raises(ConfigurationError, match="another language 'logic'"):
        register_language(Signature("logic", (Operator("f", 1),), words=True))
    with pytest.raises(ConfigurationError, match=r"no dgl_treestack\.Signature"):
        register_language("logic")


def test_the_published_notations():
    tree = Expression.parse("[MAX 2 9 [MIN 4 7 ] 0 ]", LISTS)
    assert tree.prefix() == "MAX/4 Word:2 Word:9 MIN/2 Word:4 Word:7 Word:0" and str(tree) == "[MAX 2 9 [MIN 4 7 ] 0 ]"
    assert Expression.parse("( ( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) 0 ) ] )", LISTS) == tree
    pair = Equation.parse('(Pair (or a b) (not "a b"))', LOGIC)
    assert (str(pair.left), pair.right.prefix()) == ("(or a b)", 'not Word:"a b"')
    infix = Expression.parse("( ( not a ) ( or ( ( not ( b ( and c ) ) ) ( and a ) ) ) )", LOGIC)
    assert str(infix) == "(or (not a) (and (not (and b c)) a))"


def test_depth_is_no_limit():
    text = "(not " * 20_000 + "a" + ")" * 20_000
    tree = Expression.parse(text, LOGIC)
    assert tree.depth == 20_000 and str(tree) == text
    for nested in ("( a ( or " * 20_000 + "a" + ") )" * 20_000, "( " * 20_000 + "a" + " ( or b ) )" * 20_000):
        assert Expression.parse(nested, LOGIC).depth == 20_000


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


def test_every_broken_text_is_one_error_with_its_column():
    assert_each(assert_refused, [(repr(text), text, message) for text, message in (BROKEN | BROKEN_LISTS).items()])


def assert_refused(text, message):
    with pytest.raises(ExpressionError, match=message):
        Expression.parse(text, LISTS if text in BROKEN_LISTS else LOGIC)


@pytest.mark.parametrize("text", ['Word:"abc', 'Word:"a"b', "Word", "Word:", "Symbol:x", "any Word:1"])
def test_broken_prefix_text_of_words(text):
    with pytest.raises(ExpressionError):
        Expression.from_prefix(text, WORDS)


def test_mathematics_has_no_words():
    with pytest.raises(ExpressionError, match="Unknown operator or leaf class 'Word'"):
        Expression.leaf("Word", "x")
    with pytest.raises(ExpressionError, match="Unknown operator or leaf class 'Symbol'"):
        Expression.leaf("Symbol", "x", WORDS)


def test_a_language_is_read_back_and_sent_to_a_process(tmp_path):
    for name in ("listops", "logic"):
        file = tmp_path / "other.toml"
        file.write_text(to_toml(find(name)))
        assert read(file) == find(str(file)) == find(name) == pickle.loads(pickle.dumps(find(name)))
    for classes in ("numbers", {"bad": ["0", "1"], "good": ["3"], "-": ["2"]}):
        language = from_dict({"name": "other", "classes": classes, "operators": {"f": [1, 2], "g": "any", "h": 3}})
        file.write_text(to_toml(language))
        assert read(file) == language
    assert languages()["math"] is find("math") is MATH and not MATH.words


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


@pytest.mark.parametrize(("text", "message"), FAULTS.items())
def test_a_broken_language_is_one_error_with_its_file(tmp_path, text, message):
    file = tmp_path / "other.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=rf"other\.toml: .*{message}|{message}") as caught:
        find(str(file))
    assert str(caught.value).startswith(str(file))


def test_an_unknown_language_and_a_missing_file(tmp_path):
    with pytest.raises(ConfigurationError, match=r"Unknown language 'listop'\. Did you mean 'listops'"):
        find("listop")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find(str(tmp_path / "none.toml"))
    assert from_dict({"name": "x", "operators": {"f": 1}}).notation == "brackets"
