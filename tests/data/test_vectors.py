import gzip

import numpy as np
import pytest
from each_case import assert_raises, cases

from dgl_treestack.data import formats
from dgl_treestack.data.vocabulary import PRESETS, Vocabulary
from dgl_treestack.errors import DataError, VocabularyError

WORDS = {"the", "of", "New York", ". .", "a 1", "café", "\xa0", "absent"}
GOOD = "the 0.5 -1e-3 2\nof 1 2 3\n"


@pytest.mark.parametrize("name", ["a.txt", "a.vec", "a.txt.gz"])
def test_vectors_of_the_words_of_the_data(tmp_path, name):
    text = (
        "other 7 7 7\nroute 66 7 7 7\nthe old 7 7 7\nthe 0.5 -1e-3 2\n\nNew York 4 5 6\n. . 1 1 1\na 1 2 2 2\n"
        "café 3 3 3 \r\n\xa0 8 8 8\nthe 9 9 9\nof 1 2 3"
    )
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    expected = {
        "the": [0.5, -1e-3, 2],  # the first of two lines
        "New York": [4, 5, 6],
        ". .": [1, 1, 1],
        "a 1": [2, 2, 2],
        "café": [3, 3, 3],  # a space and a carriage return at the end
        "\xa0": [8, 8, 8],  # no separator, though Python calls it a space
        "of": [1, 2, 3],  # no end of line
    }
    vector_of = formats.read_vectors(tmp_path / name, WORDS, 3)
    assert vector_of.keys() == expected.keys()
    for word, vector in vector_of.items():
        assert vector.dtype == np.float32 and np.array_equal(vector, np.array(expected[word], np.float32)), word


@cases(
    ("2 3\n" + GOOD, 3, [0.5, -1e-3, 2]),
    ("\ufeff2 3\n" + GOOD, 3, [0.5, -1e-3, 2]),  # after a byte order mark
    (GOOD + "2 3 4 5\n", 3, [0.5, -1e-3, 2]),  # a word that is a number, later
    ("1 1\nthe 7\n", 1, [7]),
    ("7 2\nthe 7\n", 1, [7]),  # no counts but a word and its number
)
def test_a_first_line_with_counts_is_skipped(tmp_path, text, size, expected):
    (tmp_path / "a.txt").write_text(text)
    vector_of = formats.read_vectors(tmp_path / "a.txt", {"the", "7"}, size)
    assert np.array_equal(vector_of["the"], np.array(expected, np.float32))
    assert ("7" in vector_of) == text.startswith("7 2")


ZIPPED = gzip.compress(GOOD.encode() * 200, mtime=0)


@cases(
    (b"", "a.txt: The file is empty. A line is a word and its numbers"),
    (b"2 3\n", "a.txt: None of the 8 words of the data is in the file"),
    (b"x 1 2 3\nthe 1 2\n", "a.txt:2: The word has 2 numbers after it, separated by one space, but"),
    (b"the 1 2 3\nx 1 2\n", "a.txt:2: The word has 2 numbers"),  # of a word that nobody needs
    (b"the 1 2 3\n2 3\n", "a.txt:2: The word has 1 numbers after it"),  # counts in another line
    (b"2 300\n", "a.txt:1: The word has 300 numbers after it"),  # counts of another size
    (b"the\t1\t2\t3\n", "a.txt:1: The word has 0 numbers after it, separated by one space"),
    (b"the 1  2 3\n", "a.txt:1: The word has 4 numbers after it, separated by one space"),
    (b"x 1 2 3\nthe 1 two 3\n", "a.txt:2: 'two' is no finite number. Correct the line"),
    (b"the 1 nan 3\n", "a.txt:1: 'nan' is no finite number"),
    (b"the 1e39 2 3\n", "a.txt:1: '1e39' is no finite number"),  # too large for float32
    (b"the 1 2 3\n\xff\xfe 1 2 3\n", "a.txt:2: The text is not UTF-8 \\(byte 0xff at position 0\\)"),
    (b"the 1 2 3\n", "a.txt.gz:1: Damaged or cut short"),
    (ZIPPED[:-12], "a.txt.gz:.*Damaged or cut short"),
    (ZIPPED[:-8] + b"12345678", "a.txt.gz:.*Damaged or cut short"),
    (None, "a.txt: Cannot be read: No such file"),
)
def test_a_broken_file_is_one_error_with_file_and_line(tmp_path, content, message):
    path = tmp_path / message.partition(":")[0]
    if content is not None:
        path.write_bytes(content)
    assert_raises(DataError, f"^{tmp_path}/{message}", formats.read_vectors, path, WORDS, 3)


RELEASED, CANONICAL = PRESETS["released"], PRESETS["canonical"]


def test_released_rows_are_the_authors_and_canonical_has_one_row_per_value():
    """It unifies one and a rational zero, and nothing else."""
    rows = {"Symbol:var_0": 0, "Symbol:var_9": 9, "Integer:0": 10, "Integer:10": 20, "Integer:-2": 21, "Rational:-1/2": 24}
    rows |= {"Float:0.7": 26, "NegativeOne:-1": 27, "Pi:pi": 31, "Half:1/2": 33, "One:1": 11, "Integer:1": 11, "Rational:0": 10}
    rows |= {"Symbol:x": 0, "Symbol:y": 1, "Symbol:z": 2, "Symbol:w": 3, "Rational:1/2": None, "Number:2": None}
    assert {leaf: RELEASED.row(*leaf.split(":")) for leaf in rows} == rows and len(RELEASED) == 34
    assert CANONICAL.row("One", "1") == CANONICAL.row("Integer", "1") == CANONICAL.row("Number", "1.0")
    assert CANONICAL.row("Half", "1/2") == CANONICAL.row("Rational", "1/2") == CANONICAL.row("Float", "0.5")
    assert CANONICAL.row("Number", "1.29") is None
    assert len({CANONICAL.row(*leaf) for leaf in CANONICAL.leaves}) == len(CANONICAL)


def test_descriptions_and_what_neither_table_nor_encoder_can_embed():
    words = Vocabulary.of_words(["b", "a", "b", "it's"])
    assert [words.row("Word", text) for text in ("a", "b", "it's", "c", "_")] == [1, 2, 3, 0, 0], "0 for unknown ones"
    assert all(Vocabulary.from_dict(one.to_dict()) == one for one in (*PRESETS.values(), words))
    assert_raises(VocabularyError, "Did you mean 'released'", Vocabulary.preset, "release")
    assert_raises(VocabularyError, "Expected keys", Vocabulary.from_dict, {"unify": "released"})
    unheard = {("Symbol", "theta"): "no row for Symbol 'theta'", ("Blank", "_"): "Fill it", ("NaN", "nan"): "no row for NaN"}
    for leaf, message in unheard.items():
        assert_raises(VocabularyError, message, CANONICAL.row, *leaf)
