import csv
import io

import pytest

from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import Operator, Signature

LISTS, LOGIC, SENTIMENT = find("listops"), find("logic"), find("sentiment")
PARTY = Signature("party", (Operator("crowd", None),), words=True, notation="brackets")
PREFIX = Signature("prefixed", (Operator("crowd", None),), words=True)


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz", ".jsonl"])
def test_examples_of_a_language_are_read_back(tmp_path, suffix):
    pair = Equation.of(Expression.parse("(or a b)", LOGIC), Expression.parse('(not "it\'s")', LOGIC))
    of_language = {
        "logic": [Example(pair, "=", "1"), Example(pair, None, "2"), Example(pair, "#", "3")],
        "listops": [Example(Expression.parse(text, LISTS), "3", str(i)) for i, text in enumerate(["3", "[MAX 3 1 ]"], 1)],
    }
    for name, examples in of_language.items():
        path = tmp_path / f"{name}{suffix}"
        assert formats.write(path, examples) == len(examples)
        again = list(formats.read(path, find(name)))
        assert again == examples and all(example.equation.signature == find(name) for example in again)
        assert again[-1].source == f"{path}:{len(examples)}"


def test_a_vocabulary_of_words_has_a_row_for_unknown_leaves():
    vocabulary = Vocabulary.of_words(["b", "a", "b", "it's"])
    assert [vocabulary.row("Word", text) for text in ("a", "b", "it's", "c", "_")] == [1, 2, 3, 0, 0]
    assert Vocabulary.from_dict(vocabulary.to_dict()) == vocabulary


QUOTED = [
    (LISTS, '3\t"[SM 1 2 ]"', "3\t[SM 1 2 ]"),
    (LISTS, '"3"\t"[SM 1 2 ]"', "3\t[SM 1 2 ]"),
    (LISTS, '3\t "( ( [SM 1 ) 2 ) ]" ', "3\t[SM 1 2 ]"),
    (LISTS, '"3"\t7', "3\t7"),
    (LOGIC, '=\t"(or a b)"\t(or b a)', "=\t(or a b)\t(or b a)"),
    (LOGIC, '"="\ta\t"(or b ""c d"")"', '=\ta\t(or b "c d")'),
    (PARTY, '-\t"(crowd ""a \\""quiet\\"" song"" b)"', '-\t(crowd "a \\"quiet\\" song" b)'),
    (PARTY, '-\t"""a song"""', '-\t"a song"'),
    (PREFIX, '-\t"crowd/2 Word:a Word:""b c"""', '-\tcrowd/2 Word:a Word:"b c"'),
    (SENTIMENT, '"3"\t"(3 (2 "") (4 works))"', '3\t(3 (2 ") (4 works))'),
]


@pytest.mark.parametrize(("language", "quoted", "plain"), QUOTED)
def test_fields_are_read_as_csv_writers_quote_them(tmp_path, language, quoted, plain):
    plain_row = plain.split("\t")
    written = io.StringIO()
    csv.writer(written, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_ALL).writerow(plain_row)
    (tmp_path / "a.tsv").write_text(f"{plain}\n{quoted}\r\n{plain}\n{written.getvalue()}")
    examples = list(formats.read(tmp_path / "a.tsv", language))
    assert len({(example.label, example.equation, example.labels) for example in examples}) == 1 and len(examples) == 4
    if len(plain_row) == 2 and plain_row[0] in ("3", "-"):
        (tmp_path / "a.txt").write_text("".join(line.partition("\t")[2] + "\n" for line in (plain, quoted)))
        trees = [example.equation for example in formats.read(tmp_path / "a.txt", language)]
        assert trees == [examples[0].equation] * 2


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        (SENTIMENT, '"', ['"']),
        (SENTIMENT, '(3 " hello ")', [" hello "]),
        (SENTIMENT, '(3 (2 ") (4 "))', ['"', '"']),
        (SENTIMENT, '(3 (2 "a) (4 b"))', ['"a', 'b"']),
        (SENTIMENT, "'a'", ["'a'"]),
        (PARTY, '"a quiet song"', ["a quiet song"]),
        (PARTY, '(crowd "a" "b c")', ["a", "b c"]),
        (PARTY, '"say \\"a\\""', ['say "a"']),
        (PARTY, '"\\u0028a)"', ["(a)"]),
    ],
)
@pytest.mark.parametrize("suffix", [".txt", ".tsv"])
def test_quotation_marks_of_words_are_read_as_they_were(tmp_path, language, text, words, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_text(f"{'-' * (suffix == '.tsv')}\t{text}\n".lstrip("\t"))
    (example,) = formats.read(path, language)
    assert [word for _, _, word in example.equation.leaves()] == words


@pytest.mark.parametrize("word", ["(a)", "[a]", " (a", '"', '""', '(a "b")', '"a"', "a b", "a\\tb", "\\u0028"])
@pytest.mark.parametrize("language", [PARTY, SENTIMENT, LISTS])
def test_any_word_alone_is_a_tree_that_is_read_back(tmp_path, language, word):
    examples = [Example(Expression.leaf("Word", word, language), id="1")]
    for name in ("a.tsv", "a.txt"):
        formats.write(tmp_path / name, examples)
        assert list(formats.read(tmp_path / name, language)) == examples


def test_half_of_a_character_is_no_text_of_a_word():
    trees = (lambda: Expression.leaf("Word", "a\ud800", LISTS), lambda: Expression.parse("[SM \udfff 1 ]", LISTS))
    for tree in (*trees, lambda: Expression.from_prefix("Word:\ud800", LISTS)):
        with pytest.raises(ExpressionError, match=r"The text '.*\\ud.*' has half of a character"):
            tree()
    assert Expression.parse('[SM "\\ud83c\\udfbb" 1 ]', LISTS).texts[1] == "\N{VIOLIN}"
