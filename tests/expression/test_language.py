import pickle

import pytest
from each_case import assert_raises
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.cells import build
from dgl_treestack.errors import ConfigurationError, DataError, ExpressionError
from dgl_treestack.expression import Equation, Expression, notations
from dgl_treestack.expression.language import find, from_dict, label_of, languages, read, register_language, to_toml
from dgl_treestack.expression.operators import MATH, Operator, Signature

LISTS, LOGIC = find("listops"), find("logic")
WORDS = Signature("words", (Operator("f", 1), Operator("g", 2), Operator("any", None)), words=True)


@st.composite
def trees_of_words(draw):
    """Trees whose leaves are any text."""
    nodes, missing = [], 1
    while missing:
        operator = draw(st.sampled_from(WORDS.operators)) if len(nodes) < 8 and draw(st.booleans()) else None
        if operator is None:
            nodes.append(("Word", draw(st.text(st.characters(codec="utf-8"), min_size=1)), 0))
        else:
            nodes.append((operator.name, None, operator.arity or draw(st.integers(1, 4))))
        missing += nodes[-1][2] - 1
    return Expression.from_nodes(nodes, WORDS)


@given(trees_of_words())
def test_any_text_is_a_leaf_in_every_notation_also_in_brackets_without_operators(tree):
    assert Expression.from_prefix(tree.prefix(), WORDS) == tree
    for notation in ("brackets", "lists"):
        language = Signature("words", WORDS.operators, words=True, notation=notation)
        assert Expression.parse(str(Expression(tree.names, tree.texts, tree.arities, language)), language) == tree
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
    labels = {"0": "bad", 1: "bad", "bad": "bad", "good": "good", "3": "good", "2": None, "-": None}
    assert {text: label_of(text, language) for text in labels} == labels
    numbers = from_dict({"name": "n", "classes": "numbers", "operators": {"f": 1}})
    assert [label_of(text, numbers) for text in ("2", -1.5, "-", "1e3")] == [2.0, -1.5, None, 1000.0]
    for signature, label in ((language, "4"), (language, True), (numbers, "inf"), (numbers, True), (numbers, "x")):
        assert_raises(DataError, "label", label_of, label, signature)


def test_languages_are_registered_and_found(tmp_path):
    language = Signature("test of languages", (Operator("f", 1),), words=True, notation="brackets")
    assert register_language(language) is register_language(language) is find("test of languages")
    del languages()["test of languages"]
    with pytest.raises(ConfigurationError, match="another language 'logic'"):
        register_language(Signature("logic", (Operator("f", 1),), words=True))
    assert_raises(ConfigurationError, r"no dgl_treestack\.Signature", register_language, "logic")
    assert_raises(ConfigurationError, r"Unknown language 'listop'\. Did you mean 'listops'", find, "listop")
    assert_raises(ConfigurationError, "cannot be read", find, str(tmp_path / "none.toml"))
    assert from_dict({"name": "x", "operators": {"f": 1}}).notation == "brackets"


def test_the_published_notations_in_which_depth_is_no_limit():
    tree = Expression.parse("[MAX 2 9 [MIN 4 7 ] 0 ]", LISTS)
    assert tree.prefix() == "MAX/4 Word:2 Word:9 MIN/2 Word:4 Word:7 Word:0" and str(tree) == "[MAX 2 9 [MIN 4 7 ] 0 ]"
    assert Expression.parse("( ( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) 0 ) ] )", LISTS) == tree
    pair = Equation.parse('(Pair (or a b) (not "a b"))', LOGIC)
    assert (str(pair.left), pair.right.prefix()) == ("(or a b)", 'not Word:"a b"')
    infix = Expression.parse("( ( not a ) ( or ( ( not ( b ( and c ) ) ) ( and a ) ) ) )", LOGIC)
    assert str(infix) == "(or (not a) (and (not (and b c)) a))"
    deep = 5_000  # Python gives up at 1,000
    text = "(not " * deep + "a" + ")" * deep
    tree = Expression.parse(text, LOGIC)
    assert tree.depth == deep and str(tree) == text
    for nested in ("( a ( or " * deep + "a" + ") )" * deep, "( " * deep + "a" + " ( or b ) )" * deep):
        assert Expression.parse(nested, LOGIC).depth == deep


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
