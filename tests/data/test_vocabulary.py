import pytest

from dgl_treestack.data.vocabulary import PRESETS, Vocabulary
from dgl_treestack.errors import VocabularyError

RELEASED, CANONICAL = PRESETS["released"], PRESETS["canonical"]


def test_released_rows_are_the_authors():
    """It unifies one and a rational zero, and nothing else."""
    rows = {"Symbol:var_0": 0, "Symbol:var_9": 9, "Integer:0": 10, "Integer:10": 20, "Integer:-2": 21, "Rational:-1/2": 24}
    rows |= {"Float:0.7": 26, "NegativeOne:-1": 27, "Pi:pi": 31, "Half:1/2": 33, "One:1": 11, "Integer:1": 11, "Rational:0": 10}
    rows |= {"Symbol:x": 0, "Symbol:y": 1, "Symbol:z": 2, "Symbol:w": 3, "Rational:1/2": None, "Number:2": None}
    assert {leaf: RELEASED.row(*leaf.split(":")) for leaf in rows} == rows and len(RELEASED) == 34


def test_canonical_has_one_row_per_value():
    assert CANONICAL.row("One", "1") == CANONICAL.row("Integer", "1") == CANONICAL.row("Number", "1.0")
    assert CANONICAL.row("Half", "1/2") == CANONICAL.row("Rational", "1/2") == CANONICAL.row("Float", "0.5")
    assert CANONICAL.row("Number", "1.29") is None
    assert len({CANONICAL.row(*leaf) for leaf in CANONICAL.leaves}) == len(CANONICAL)


def test_what_neither_table_nor_encoder_can_embed():
    unheard = {("Symbol", "theta"): "no row for Symbol 'theta'", ("Blank", "_"): "Fill it", ("NaN", "nan"): "no row for NaN"}
    for leaf, message in unheard.items():
        with pytest.raises(VocabularyError, match=message):
            CANONICAL.row(*leaf)


def test_descriptions():
    words = Vocabulary.of_words(["b", "a", "b", "it's"])
    assert [words.row("Word", text) for text in ("a", "b", "it's", "c", "_")] == [1, 2, 3, 0, 0], "0 for unknown ones"
    assert all(Vocabulary.from_dict(one.to_dict()) == one for one in (*PRESETS.values(), words))
    with pytest.raises(VocabularyError, match="Did you mean 'released'"):
        Vocabulary.preset("release")
    with pytest.raises(VocabularyError, match="Expected keys"):
        Vocabulary.from_dict({"unify": "released"})
