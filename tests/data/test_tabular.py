import pytest

from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import DataError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.language import find

LISTS, LOGIC = find("listops"), find("logic")


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


@pytest.mark.parametrize(
    ("language", "line", "message"),
    [
        (LISTS, "3", "has a label and 1 tree.*found 1"),
        (LISTS, "3\t1\t2", "found 3"),
        (LISTS, "11\t[MAX 1 ]", "Unknown label of the language 'listops': '11'"),
        (LISTS, "\t1", "Unknown label"),
        (LISTS, "3\t", "There is no tree"),
        (LISTS, "3\t[MAX 1", "open"),
        (LISTS, "3\t[SUM 1 ]", "here 'SUM'"),
        (LOGIC, "=\ta", "has a label and 2 tree"),
        (LOGIC, "=\ta\t(or a)", "takes 2 operands, found 1"),
        (LOGIC, "==\ta\ta", "Unknown label"),
        (LOGIC, "= a b", "found 1"),
    ],
)
def test_a_bad_line_is_one_error_with_file_and_line(tmp_path, language, line, message):
    path = tmp_path / "bad.tsv"
    good = "-\t(or a b)\tb" if language.root else "-\t[MAX 1 2 ]"
    path.write_text(f"{good}\r\n\n{line}\n")
    with pytest.raises(DataError, match=message) as caught:
        list(formats.read(path, language))
    assert str(caught.value).startswith(f"{path}:3: ")


@pytest.mark.parametrize(("label", "message"), [('"11"', "Unknown label"), ("true", "must be int"), ("1.5", "Unknown label")])
def test_labels_in_json(tmp_path, label, message):
    path = tmp_path / "a.jsonl"
    path.write_text('{"label": 3, "text": "[MAX 3 ]", "signature": "listops"}\n')
    assert next(formats.read(path, LISTS)).label == "3"
    path.write_text(f'{{"label": {label}, "text": "[MAX 3 ]", "signature": "listops"}}\n')
    with pytest.raises(DataError, match=message):
        list(formats.read(path, LISTS))


def test_a_vocabulary_of_words_has_a_row_for_unknown_leaves():
    vocabulary = Vocabulary.of_words(["b", "a", "b", "it's"])
    assert [vocabulary.row("Word", text) for text in ("a", "b", "it's", "c", "_")] == [1, 2, 3, 0, 0]
    assert Vocabulary.from_dict(vocabulary.to_dict()) == vocabulary
