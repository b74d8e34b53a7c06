import pickle

import pytest
from each_case import assert_each
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.errors import ConfigurationError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.language import find, from_dict, languages, read, to_toml
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
    "(or (or a) b)": "an operator of 'logic'",
    "(a (or b c))": "here 'a'",
}


def test_every_broken_text_is_one_error_with_its_column():
    assert_each(assert_refused, [(repr(text), text, message) for text, message in BROKEN.items()])


def assert_refused(text, message):
    with pytest.raises(ExpressionError, match=message):
        Expression.parse(text, LOGIC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[MAX ]", "takes at least one operand, found 0"),
        ("MAX 1", "complete before this"),
        ("[1 2 ]", "here '1'"),
        ("( )", "There is no tree"),
        ("] [", "closes nothing"),
        ("[MAX [MIN 1 ]", "open"),
    ],
)
def test_broken_lists(text, message):
    with pytest.raises(ExpressionError, match=message):
        Expression.parse(text, LISTS)


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
