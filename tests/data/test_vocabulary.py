import pytest

from dgl_treestack.data.vocabulary import PRESETS, Vocabulary
from dgl_treestack.errors import VocabularyError

RELEASED, CANONICAL = PRESETS["released"], PRESETS["canonical"]


def test_released_rows_are_the_authors():
    leaves = "Symbol:var_0 Symbol:var_9 Integer:0 Integer:10 Integer:-2 Rational:-1/2 Float:0.7 NegativeOne:-1 Pi:pi Half:1/2"
    assert [RELEASED.row(*leaf.split(":")) for leaf in leaves.split()] == [0, 9, 10, 20, 21, 24, 26, 27, 31, 33]
    assert len(RELEASED) == 34 and [RELEASED.row("Symbol", letter) for letter in "xyzw"] == [0, 1, 2, 3]


def test_released_unifies_one_and_rational_zero_and_nothing_else():
    assert RELEASED.row("One", "1") == RELEASED.row("Integer", "1") == 11
    assert RELEASED.row("Rational", "0") == RELEASED.row("Integer", "0") == 10
    assert RELEASED.row("NegativeOne", "-1") != RELEASED.row("Integer", "-2")
    assert RELEASED.row("Rational", "1/2") is None
    assert RELEASED.row("Number", "2") is None


def test_canonical_has_one_row_per_value():
    assert CANONICAL.row("One", "1") == CANONICAL.row("Integer", "1") == CANONICAL.row("Number", "1.0")
    assert CANONICAL.row("Half", "1/2") == CANONICAL.row("Rational", "1/2") == CANONICAL.row("Float", "0.5")
    assert CANONICAL.row("Number", "1.29") is None
    assert len({CANONICAL.row(*leaf) for leaf in CANONICAL.leaves}) == len(CANONICAL)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [("Symbol", "theta", "no row for Symbol 'theta'"), ("Blank", "_", "Fill it"), ("NaN", "nan", "no row for NaN")],
)
def test_what_neither_table_nor_encoder_can_embed(kind, text, message):
    with pytest.raises(VocabularyError, match=message):
        CANONICAL.row(kind, text)


def test_descriptions():
    words = Vocabulary.of_words(["b", "a", "b", "it's"])
    assert [words.row("Word", text) for text in ("a", "b", "it's", "c", "_")] == [1, 2, 3, 0, 0], "0 for unknown ones"
    assert all(Vocabulary.from_dict(one.to_dict()) == one for one in (*PRESETS.values(), words))
    with pytest.raises(VocabularyError, match="Did you mean 'released'"):
        Vocabulary.preset("release")
    with pytest.raises(VocabularyError, match="Expected keys"):
        Vocabulary.from_dict({"unify": "released"})
