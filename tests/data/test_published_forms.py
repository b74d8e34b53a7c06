"""Files in the forms in which data sets are published: lines of each, written here, and lines that are refused."""

import csv
import dataclasses
import io
import json

import pytest
from each_case import assert_raises, cases

from dgl_treestack import Example, Expression, Operator, Signature
from dgl_treestack.data import formats
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression.language import find, from_dict

COMPOSE, PAIR = {"compose": 2}, {"compose": 2, "P": 2}
CATEGORIES = ["S", "NP", "VP", "DT", "NN", "VBZ", "."]
POLARITY = {"bad": ["0", "1"], "good": ["3", "4"], "-": ["2"]}
LANGUAGES = {
    "sentiment": from_dict({"name": "sentiment", "notation": "labelled", "classes": list("01234"), "operators": COMPOSE}),
    "polarity": from_dict({"name": "polarity", "notation": "labelled", "classes": POLARITY, "operators": COMPOSE}),
    "treebank": from_dict({"name": "treebank", "notation": "labelled", "classes": CATEGORIES, "operators": {"phrase": "any"}}),
    "numbers": from_dict({"name": "numbers", "classes": "numbers", "operators": {"plus": [2, 3]}}),
    "pairs": from_dict({"name": "pairs", "notation": "labelled", "classes": list("01234"), "root": "P", "operators": PAIR}),
    "listops": find("listops"),
    "binary": find("listops_binary"),
    "logic": find("logic"),
}


def read(folder, language, file, *lines):
    path = folder / file
    path.write_text("".join(f"{line}\n" for line in lines))
    return list(formats.read(path, LANGUAGES[language]))


PHRASE = "phrase/2 phrase/2 Word:the Word:cat phrase/1 Word:purrs"
CHAIN = "compose compose compose Word:[MAX Word:2 Word:9 Word:]"
CONNECTIVES = "Pair or not Word:a Word:b and Word:a not Word:b"
# language, file, line -> tree, label, labels of nodes
PUBLISHED = [
    ("sentiment", "a.txt", "(3 (2 It) (4 works))", "compose Word:It Word:works", "3", ("3", "2", "4")),
    ("sentiment", "a.txt", "(1 dull)", "Word:dull", "1", ("1",)),
    ("sentiment", "a.txt", "(2 (2 -LRB-) (2 ``))", "compose Word:-LRB- Word:``", "2", ("2", "2", "2")),
    ("sentiment", "a.txt", "(2 8\xa01/2)", 'Word:"8\xa01/2"', "2", ("2",)),
    ("polarity", "a.txt", "(2 (2 It) (0 fails))", "compose Word:It Word:fails", None, (None, None, "bad")),
    ("polarity", "a.txt", "(3 (2 It) (4 works))", "compose Word:It Word:works", "good", ("good", None, "good")),
    ("treebank", "a.txt", "( (S (NP (DT the) (NN cat)) (VP (VBZ purrs))) )", PHRASE, "S", ("S", "NP", "DT", "NN", "VP", "VBZ")),
    ("listops", "a.tsv", "9\t[MAX 2 9 ]", "MAX/2 Word:2 Word:9", "9", ()),
    ("listops", "a.tsv", "9\t( ( ( [MAX 2 ) 9 ) ] )", "MAX/2 Word:2 Word:9", "9", ()),
    ("binary", "a.tsv", "9\t( ( ( [MAX 2 ) 9 ) ] )", CHAIN, "9", ()),
    ("logic", "a.tsv", "^\t( ( not a ) ( or b ) )\t( a ( and ( not b ) ) )", CONNECTIVES, "^", ()),
    ("numbers", "a.tsv", "-2.5\t(plus a (plus b b c))", "plus/2 Word:a plus/3 Word:b Word:b Word:c", -2.5, ()),
]


@pytest.mark.parametrize(("language", "file", "line", "tree", "label", "labels"), PUBLISHED)
def test_a_line_is_a_tree_with_labels(tmp_path, language, file, line, tree, label, labels):
    (example,) = read(tmp_path, language, file, line)
    assert (example.equation.prefix(), example.label, example.labels) == (tree, label, labels)


def test_labels_that_a_file_has_no_place_for_are_no_loss(tmp_path):
    (tree,) = read(tmp_path, "sentiment", "a.txt", "(- (- a) (- b))")
    labelled = dataclasses.replace(tree, label="3")
    formats.write(tmp_path / "b.txt", [labelled])
    assert (tmp_path / "b.txt").read_text() == "(3 (- a) (- b))\n"
    (again,) = formats.read(tmp_path / "b.txt", LANGUAGES["sentiment"])
    assert again.label == "3" and again.labels == ("3", None, None)
    (listed,) = read(tmp_path, "listops", "a.tsv", "4\t[MAX 2 4 ]")
    for example, name in ((listed, "c.txt"), (dataclasses.replace(listed, labels=("4", "2", "4")), "c.tsv")):
        assert_raises(DataError, r"Write \.jsonl", formats.write, tmp_path / name, [example])
    formats.write(tmp_path / "c.jsonl", [dataclasses.replace(listed, labels=("4", "2", "4"))])
    assert next(formats.read(tmp_path / "c.jsonl", LANGUAGES["listops"])).labels == ("4", "2", "4")


LINES = {  # language -> file, lines
    "polarity": ("a.txt", "(2 (2 It) (0 fails))", "(3 (2 It) (4 works))", r'(4 "\u0028")', '(4 ")'),
    "logic": ("a.tsv", '=\t(or a b)\t(not "it\'s")', "-\t(or a b)\ta", "#\ta\tb"),
    "listops": ("a.tsv", "3\t3", "3\t[MAX 3 1 ]"),
}


@cases(
    *(("polarity", suffix) for suffix in (".txt", ".txt.gz", ".tsv", ".jsonl")),
    *((language, suffix) for language in ("logic", "listops") for suffix in (".tsv", ".tsv.gz", ".jsonl")),
)
def test_what_is_written_is_read_back(tmp_path, language, suffix):
    examples, path = read(tmp_path, language, *LINES[language]), tmp_path / f"b{suffix}"
    assert formats.write(path, examples) == len(examples)
    again = list(formats.read(path, LANGUAGES[language]))
    assert [(e.equation, e.labels, e.label) for e in again] == [(e.equation, e.labels, e.label) for e in examples]
    assert all(example.equation.signature == LANGUAGES[language] for example in again)
    assert again[-1].source == f"{path}:{len(examples)}"


def jsonl(**entries):
    return json.dumps({"label": "3", "text": "(3 (2 a) (4 b))", "signature": "sentiment", **entries})


BARE = "(- (- a) (- b))"
GOOD = {language: line for language, _, line, *_ in reversed(PUBLISHED)}  # the first one of each
GOOD["pairs"] = "3\t(- (- It) (- works))\t(- a)"


# language, file, line -> what the error says
@cases(
    ("sentiment", "a.txt", "(", "1 bracket"),
    ("sentiment", "a.txt", "()", "begins with a label"),
    ("sentiment", "a.txt", ")", "closes nothing"),
    ("sentiment", "a.txt", "(3)", "has 0 children"),
    ("sentiment", "a.txt", "(3 (2 It) (4 works)", "1 bracket.*open"),
    ("sentiment", "a.txt", "(3 (2 It) (4 works)) (2 .)", "complete before this"),
    ("sentiment", "a.txt", "(3 (2 It) (2 just) (4 works))", "has 3 children; operators of 'sentiment' have 2"),
    ("sentiment", "a.txt", "( (3 (2 It) (4 works)) (2 .))", "begins with a label"),
    ("sentiment", "a.txt", "(5 (2 It) (4 works))", "Unknown label of the language 'sentiment': '5'"),
    ("sentiment", "a.txt", "(+ (2 It) (4 works))", "Unknown label.*'\\+'"),
    ("sentiment", "a.txt", "3\t(3 (2 It) (4 works))", "1 column.*found 2"),
    ("sentiment", "a.txt", '(3 (2 "\\q") (4 works))', "no quoted text"),
    ("sentiment", "a.tsv", "(3 (2 It) (4 works))", "2 column.*found 1"),
    ("polarity", "a.txt", "(5 It)", "Unknown label.*Known: 0, 1, 2, 3, 4, bad, good"),
    ("treebank", "a.txt", "(S)", "has 0 children; operators of 'treebank' have any children"),
    ("listops", "a.tsv", "4", "found 1"),
    ("listops", "a.tsv", "4\t[MAX 2 4 ]\t4", "found 3"),
    ("listops", "a.tsv", "4\t[MAX ]", "at least one operand, found 0"),
    ("binary", "a.tsv", "4\t( [MAX )", "has 1 child;"),
    ("binary", "a.tsv", "4\t[MAX 4 ]", "complete before this"),
    ("binary", "a.tsv", "4\t( )", "has 0 children"),
    ("listops", "a.tsv", "\t1", "Unknown label"),
    ("listops", "a.tsv", '3\t"[SM 1 \\"2\\" ]"', r'is not doubled\. Write "" for it, or no marks around the field'),
    ("listops", "a.tsv", '3\t"[SM 1 2', "partner"),
    ("listops", "a.tsv", '"label"\t"tree"', "Unknown label of the language 'listops': 'label'"),
    ("listops", "a.tsv", "3\t'[SM 1 2 ]'", "complete before this"),
    ("listops", "a.tsv", '3\t[SM 1 "\\ud800" ]', "has half of a character"),
    ("listops", "a.jsonl", jsonl(text="[MAX 3 ]", signature="listops", label="11"), "Unknown label"),
    ("listops", "a.jsonl", jsonl(text="[MAX 3 ]", signature="listops", label=True), "must be int"),
    ("logic", "a.tsv", "=\ta", "3 column.*found 2"),
    ("numbers", "a.tsv", "high\t(plus a b)", "no finite number"),
    ("numbers", "a.tsv", "1\t(plus a)", "takes 2 operands, found 1"),
    ("numbers", "a.tsv", "1\t(plus a b c d)", "takes 2 or 3 operands, found 4"),
    ("sentiment", "a.jsonl", jsonl(text=BARE, labels=["3", "2"]), "2 entries for 3 nodes"),
    ("sentiment", "a.jsonl", jsonl(text=BARE, labels="324"), "'labels' must be list"),
    ("sentiment", "a.jsonl", jsonl(text=BARE, labels=["3", [], "2"]), "Unknown label"),
    ("sentiment", "a.jsonl", jsonl(text=BARE, labels=["2", "2", "2"]), "has the label '3' and its root '2'"),
    ("sentiment", "a.jsonl", jsonl(labels=["3", "2", "4"]), "in 'text' and in 'labels'"),
    ("sentiment", "a.txt", "(3 It works)", r"holds a word and 1 more.*\(label \"two words\"\)"),
    ("sentiment", "a.tsv", "1\t(3 (2 It) (4 works))", "has the label '1' and its root '3'"),
    ("pairs", "a.tsv", "0\t(3 (2 It) (4 works))\t(- a)", "The trees of a pair have no labels at their nodes"),
    ("pairs", "a.tsv", "0\t(z (- It) (- works))\t(- a)", "Unknown label.*'z'"),
)
def test_every_broken_line_is_refused_with_file_and_line(tmp_path, language, file, line, message):
    good = GOOD[language]
    if file.endswith(".tsv") and "\t" not in good:
        good = f"3\t{good}"
    if file.endswith(".jsonl"):
        good = jsonl() if language == "sentiment" else jsonl(text="[MAX 3 ]", signature=language, label=3)
    assert_raises(DataError, f"^{tmp_path / file}:3: .*{message}", read, tmp_path, language, file, f"{good}\r", "", line)


LISTS, LOGIC, SENTIMENT = find("listops"), find("logic"), find("sentiment")
PARTY = Signature("party", (Operator("crowd", None),), words=True, notation="brackets")
PREFIX = Signature("prefixed", (Operator("crowd", None),), words=True)


@cases(
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
)
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


@cases(
    (SENTIMENT, '"', ['"']),
    (SENTIMENT, '(3 " hello ")', [" hello "]),
    (SENTIMENT, '(3 (2 ") (4 "))', ['"', '"']),
    (SENTIMENT, '(3 (2 "a) (4 b"))', ['"a', 'b"']),
    (SENTIMENT, "'a'", ["'a'"]),
    (PARTY, '"a quiet song"', ["a quiet song"]),
    (PARTY, '(crowd "a" "b c")', ["a", "b c"]),
    (PARTY, '"say \\"a\\""', ['say "a"']),
    (PARTY, '"\\u0028a)"', ["(a)"]),
)
@pytest.mark.parametrize("suffix", [".txt", ".tsv"])
def test_quotation_marks_of_words_are_read_as_they_were(tmp_path, suffix, language, text, words):
    path = tmp_path / f"a{suffix}"
    path.write_text(f"{'-' * (suffix == '.tsv')}\t{text}\n".lstrip("\t"))
    (example,) = formats.read(path, language)
    assert [word for _, _, word in example.equation.leaves()] == words


@pytest.mark.parametrize("word", ["(a)", "[a]", " (a", '"', '""', '(a "b")', '"a"', "a b", "a\\tb", "\\u0028", "8\xa01/2"])
@pytest.mark.parametrize("language", [PARTY, SENTIMENT, LISTS])
def test_any_word_alone_is_a_tree_that_is_read_back(tmp_path, language, word):
    examples = [Example(Expression.leaf("Word", word, language), id="1")]
    for name in ("a.tsv", "a.txt"):
        formats.write(tmp_path / name, examples)
        assert list(formats.read(tmp_path / name, language)) == examples


def test_half_of_a_character_is_no_text_of_a_word():
    trees = (lambda: Expression.leaf("Word", "a\ud800", LISTS), lambda: Expression.parse("[SM \udfff 1 ]", LISTS))
    for tree in (*trees, lambda: Expression.from_prefix("Word:\ud800", LISTS)):
        assert_raises(ExpressionError, r"The text '.*\\ud.*' has half of a character", tree)
    assert Expression.parse('[SM "\\ud83c\\udfbb" 1 ]', LISTS).texts[1] == "\N{VIOLIN}"
