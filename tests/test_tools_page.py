"""Paragraphs of a page that are written from tables."""

import pytest
from each_case import assert_raises

from dgl_treestack.errors import DataError
from dgl_treestack.results.report import lines_table
from tools import page

COLUMNS = (
    "set,depths,records,unit,seeds,first,second,paper,points,interval,"
    '"p, seeds","Holm, seeds","p, equations","Holm, equations",permuted\n'
)
CLEAR = "test,8-13,3960,equations,5,Tree-LSTM,Tree-RNN,2.97,6.04,5.1 to 7.0,0.0003,0.0006,0.0001,0.0002,430 families\n"
UNCLEAR = "deep,8-19,120000,equations,5,Tree-SMU,Tree-LSTM,-1.2,-0.12,-0.9 to 0.7,0.61,0.61,0.0001,0.0002,800 families\n"
TIED = "test,8-13,3960,equations,5,Tree-SMU,Tree-LSTM,,-0.01,-0.6 to 0.5,0.96,0.96,0.87,0.87,430 families\n"
ALONE = "blanks,1-19,504,blanks,1,Tree-SMU,Tree-LSTM,,2.3,,,,0.12,0.12,504 records\n"
PAGE = """# Results

Before.

<!-- begin localism -->
<!-- end localism -->

Between.

<!-- begin capacity -->
old
<!-- end capacity -->
"""

OF_LOCALISM = """On depths 1-19 of `blanks` (504 blanks), 1 seed, p-values after Holm's correction:

- Tree-SMU is 2.3 points ahead of Tree-LSTM (p 0.12 over blanks, not tested over seeds); within noise.
"""
OF_CAPACITY = """On depths 8-13 of `test` (3,960 equations, 430 families), 5 seeds, p-values after Holm's correction:

- Tree-LSTM is 6.0 points ahead of Tree-RNN, in the paper 2.97 ahead (95 % interval 5.1 to 7.0; p 0.0002 over equations, 0.0006 over seeds).
- Tree-SMU is less than 0.05 points behind Tree-LSTM (95 % interval -0.6 to 0.5; p 0.87 over equations, 0.96 over seeds); within noise.

On depths 8-19 of `deep` (120,000 equations, 800 families), 5 seeds, p-values after Holm's correction:

- Tree-SMU is 0.1 points behind Tree-LSTM, in the paper 1.20 behind (95 % interval -0.9 to 0.7; p 0.0002 over equations, 0.61 over seeds); within noise.
"""  # noqa: E501


def test_sentences_say_what_the_numbers_say(tmp_path):
    for name, rows in (("localism", ALONE), ("capacity", CLEAR + UNCLEAR + TIED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / page.PAIRS).write_text(COLUMNS + rows)
    file = tmp_path / "results.md"
    file.write_text(PAGE)
    page.update(file, tmp_path)
    text = file.read_text()
    assert text == PAGE.replace("old\n", OF_CAPACITY).replace("<!-- end localism", f"{OF_LOCALISM}<!-- end localism")
    page.update(file, tmp_path)
    assert file.read_text() == text, "the same again"


def test_what_cannot_be_written_is_refused(tmp_path):
    file = tmp_path / "results.md"
    assert_raises(DataError, r"results\.md: Cannot be read", page.update, file, tmp_path)
    for text in ("# Results\n", PAGE.replace("<!-- end localism", "<!-- end lokalism")):
        file.write_text(text)
        assert_raises(DataError, "no such pair, or half of one", page.update, file, tmp_path)
    file.write_text(PAGE)
    with pytest.raises(DataError, match=r"localism/pairs\.csv: Cannot be read: .* `treestack reproduce localism`"):
        page.update(file, tmp_path)
    (tmp_path / "localism").mkdir()
    for content in ("a,b\n1,2\n", COLUMNS + CLEAR.replace("6.04", "many")):
        (tmp_path / "localism" / page.PAIRS).write_text(content)
        assert_raises(DataError, "Not a file of pairs", page.update, file, tmp_path)
    assert file.read_text() == PAGE


def test_a_table_of_pairs_has_the_papers_numbers_with_all_digits():
    line = {"first": "Tree-SMU", "paper": 17.45, "points": 7.398056, "Holm, seeds": None, "unit": "equations", "permuted": ""}
    assert lines_table([line]).splitlines()[-1] == "| Tree-SMU | 17.45 | 7.4 | - |"
