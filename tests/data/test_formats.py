import codecs
import dataclasses
import gzip
import json
import random
import time

import pytest
from each_case import assert_raises, cases
from trees import random_equation

from dgl_treestack import Equation, Example, Expression, Operator, Signature
from dgl_treestack.data import formats
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.expression import language as languages

GOOD = {"id": "a", "label": 1, "depth": 2, "text": "x + 0 = x", "certificate": {"verdict": "holds", "points": 16}}


def examples(count=40, seed=0):
    rng = random.Random(seed)
    labels = [0, 1, None]
    return [Example(random_equation(rng, i % 6 + 1), rng.choice(labels), str(i), "train", f"p{i // 2}") for i in range(count)]


def test_our_format_round_trip_and_same_bytes(tmp_path):
    deep = Equation.of(Expression.from_prefix("sin " * 5000 + "Symbol:x"), Expression.parse("y"))
    written = [*examples(), Example(deep, 0, "deep")]
    for name in ("a.jsonl", "a.jsonl.gz", "b.jsonl.gz"):
        assert formats.write(tmp_path / name, written) == len(written)
        assert list(formats.read(tmp_path / name)) == written
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    lines = gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).splitlines()
    assert len(lines) == len(written) and b'"prefix"' in lines[-1] and b'"text"' in lines[0]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_authors_format_round_trip(tmp_path, name):
    written = [Example(e.equation, e.label, blank=e.equation.size // 2) for e in examples() if "x" not in e.equation.texts]
    assert len(written) > 3
    formats.write(tmp_path / name, written)
    back = list(formats.read(tmp_path / name))
    key = lambda e: (e.equation.depth, e.equation.prefix(), str(e.label), e.blank)  # noqa: E731
    assert sorted(map(key, back)) == sorted(map(key, written))


def test_authors_format_fields(tmp_path):
    """A constant has its own text, whatever the file says."""
    formats.write(tmp_path / "a.json", [Example(Equation.parse("sin(x) = 1/csc(x)"), 1)])
    equation = {
        "func": "Equality,sin,Symbol,#,#,#,Pow,csc,Symbol,#,#,#,NegativeOne,#,#",
        "vars": ",,var_0,#,#,#,,,var_0,#,#,#,-1,#,#",
        "depth": "3,1,0,#,#,#,2,1,0,#,#,#,0,#,#",
        "nodeNum": "0,1,2,#,#,#,3,4,5,#,#,#,6,#,#",
    }
    equation |= {"numNodes": "7", "variables": {"var_0": 0}}
    assert json.loads((tmp_path / "a.json").read_text()) == [[], [], [], [{"equation": equation, "label": "1"}]]
    data = {"equation": {"func": "Equality,Half,#,#,Pi,#,#", "vars": ",0.5,#,#,3.14,#,#"}, "label": "0"}
    (tmp_path / "a.json").write_text(json.dumps([[data]]))
    assert [e.equation for e in formats.read(tmp_path / "a.json")] == [Equation.parse("half = pi")]


def line(**changes):
    return json.dumps({key: value for key, value in {**GOOD, **changes}.items() if value != "drop"})


@cases(
    (line()[:-8], "Not a complete JSON object"),
    (line(lable=1), "Did you mean 'label'"),
    (line(label=2), "write 1 for correct"),
    (line(label="1"), "'label' must be int or null"),
    (line(label=0), "certificate says 'holds'"),
    (line(depth=3), "the tree has 2"),
    (line(text="x + 0 = "), "invalid syntax"),
    (line(text="x + foo(0) = x"), "Unknown function 'foo'"),
    (line(text="drop"), "Exactly one of the keys"),
    (line(prefix="Pi"), "Exactly one of the keys"),
    (line(blank=99), "node 99 of a tree with 5"),
    (line(id="first"), "is already in line 1"),
    (line(certificate={"gap": float("nan")}), "NaN is not allowed"),
    (line()[:-1] + ', "label": 0}', "The key 'label' is twice in one object. Take one of them out"),
    (line()[:-1] + ', "l\\u0061bel": 1}', "The key 'label' is twice in one object"),
    (line(certificate={"a": [{"b": {"c": 1}}]}).replace('"c": 1', '"c": 1, "c": 1'), "The key 'c' is twice"),
    (line(id="a\ud800"), r"'\\ud800' is half of a character\. Write the whole one"),
    (line(pair="\ude00\ud83d"), "half of a character"),
    (line(**{"\ud800": 1}), "half of a character"),
    ("[1, 2]", "Expected a JSON object"),
    ("[" * 100_000, "nested too deeply"),
    ('{"depth": ' + "9" * 5000 + "}", "a number has too many digits"),
)
def test_a_bad_line_is_one_error_with_file_and_line(tmp_path, bad, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(line(id="first") + "\n\n" + bad + "\n")
    assert_raises(DataError, f"^{path}:3: .*{message}", list, formats.read(path))


def test_damaged_files(tmp_path):
    formats.write(tmp_path / "a.jsonl.gz", examples())
    whole = (tmp_path / "a.jsonl.gz").read_bytes()
    for name, content, message in (
        ("cut.jsonl.gz", whole[: len(whole) // 2], "Damaged or cut short"),
        ("no.jsonl.gz", b"not gzip", "Damaged or cut short"),
        ("latin.jsonl", b'{"text": "\xe9"}\n', r":1: The text is not UTF-8 \(byte 0xe9 at position 10\): .* iconv -f LATIN1"),
        ("absent.jsonl", None, "No such file"),
        ("a.csv", b"", "ends in one of"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        assert_raises(DataError, message, list, formats.read(tmp_path / name))


@cases(
    (lambda text: text[:-3], "ends inside a list|cut short"),
    (lambda text: text.rstrip()[:-1], "The file ends inside a list"),
    (lambda text: text.replace('"func"', '"function"', 1), "key 'func' is missing"),
    (lambda text: text.replace("Equality,", "Equality,Add,", 1), "entries"),
    (lambda text: text.replace("Equality,", "Equalitu,", 1), "Did you mean 'Equality'"),
    (lambda text: text.replace('"label": "1"', '"label": "5"', 1), "must be '1', '0' or '-1'"),
    (lambda text: text.replace("sin,Symbol,#,#,#", "sin,Symbol,#,#,Pi", 1), "before the tree is complete"),
    (lambda text: "{" + text, "list of lists"),
    (lambda text: text.replace('"label": "1"', '"label": ' + "9" * 5000, 1), "a number has too many digits"),
    (lambda text: text.replace('"label": "1"', '"label": "1", "label": "0"', 1), "The key 'label' is twice in one object"),
    (lambda text: text.replace("var_0,#", "\\ud800,#", 1), "half of a character"),
    (lambda text: text.rstrip() + text, "text after the end of the list"),
    (lambda text: text.rstrip()[:-1] + " {}]", "Expected ',' or ']', found '{'"),
)
def test_authors_format_errors_name_group_and_line(tmp_path, change, message):
    path = tmp_path / "a.json"
    formats.write(path, [Example(Equation.parse("sin(x) = 1/csc(x)"), 1)])
    path.write_text("\n\n" + change(path.read_text()))
    assert_raises(DataError, f"^{path}:3: .*(?:{message})", list, formats.read(path))


def test_writing_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    formats.write(path, examples(4))
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert_raises(OutputError, "No space", formats.write, path, examples(30))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


@cases(("a.json.gz", "more than 100000 bytes"), ("a.jsonl.gz", "longer than 100000 bytes"))
def test_a_decompression_bomb_is_not_read_to_its_end(tmp_path, monkeypatch, name, message):
    monkeypatch.setattr(formats, "MAX_TEXT", 100_000)
    monkeypatch.setattr(formats, "MAX_LINE", 100_000)
    endless = random.Random(0).randbytes(3_000_000).replace(b"\n", b"")
    # cut off: whoever reads on past the cap finds a damaged file instead
    (tmp_path / name).write_bytes(gzip.compress(endless)[:2_000_000])
    assert_raises(DataError, f"^{tmp_path / name}.*{message}", list, formats.read(tmp_path / name))


@cases(b"0", *(pytest.param(text, marks=pytest.mark.slow) for text in (b"\n", b'{"text": "x = x"}\n')))
def test_a_small_file_that_expands_to_ten_gigabytes_is_refused_at_once(tmp_path, monkeypatch, content):
    monkeypatch.setattr(formats, "HARMLESS", 1_000_000)
    member = gzip.compress(content * (10_000_000 // len(content)))
    (tmp_path / "a.jsonl.gz").write_bytes(member * 1000)
    started = time.process_time()
    with pytest.raises(DataError, match="expands to more than 200 times its size"):
        for _ in formats.read_lines(tmp_path / "a.jsonl.gz"):
            pass
    assert time.process_time() - started < 30


def test_the_cap_on_a_whole_file_holds_for_plain_files_too(tmp_path, monkeypatch):
    formats.write(tmp_path / "a.json", [Example(Equation.parse("x = y"), 1)])
    size = (tmp_path / "a.json").stat().st_size
    monkeypatch.setattr(formats, "MAX_TEXT", size)
    assert len(list(formats.read(tmp_path / "a.json"))) == 1
    monkeypatch.setattr(formats, "MAX_TEXT", size - 1)
    assert_raises(DataError, f"more than {size - 1} bytes", list, formats.read(tmp_path / "a.json"))


@cases(
    ("a.jsonl", "math", json.dumps(GOOD)),
    ("a.json", "math", json.dumps([[{"equation": {"func": "Equality,Pi,#,#,Pi,#,#", "vars": ",,,,,,"}, "label": "1"}]])),
    ("a.tsv", "logic", "=\t(or a b)\t(or b a)"),
    ("a.txt", "sentiment", "(3 (2 It) (4 works))"),
)
def test_a_tree_is_checked_once_when_it_is_read(tmp_path, noted, name, language, content):
    (tmp_path / name).write_text(content)
    checks = noted(Expression, "__post_init__")
    assert len(list(formats.read(tmp_path / name, languages.find(language)))) == len(checks) == 1


@pytest.mark.parametrize("name", ["a.jsonl", "a.json.gz"])
def test_an_example_knows_where_it_stands(tmp_path, name):
    path = tmp_path / name
    written = [Example(Equation.parse(text), 1, source="elsewhere:9") for text in ("x = x", "y = y")]
    formats.write(path, written)
    read = list(formats.read(path))
    assert [e.source for e in read] == ([f"{path}:1", f"{path}:2"] if name == "a.jsonl" else [f"{path}:1"] * 2)
    assert read[0] == dataclasses.replace(read[0], source="elsewhere:9")
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    assert b"source" not in content
    assert b"elsewhere" not in content
    if name == "a.json.gz":  # an equation stands where it begins
        path.write_bytes(gzip.compress(content.replace(b'{"equation"', b'\n\n{\n"equation"')))
        assert [e.source for e in formats.read(path)] == [f"{path}:3", f"{path}:6"]


def test_files_of_another_signature_are_read_back(tmp_path):
    logic = Signature("logic", (Operator("and", 2), Operator("not", 1), Operator("same", 2)), "same")
    tree = Expression.from_prefix("and Symbol:p not Symbol:q", logic)
    examples = [Example(tree, 1, "0"), Example(Equation.of(tree, tree), 1, "1")]
    formats.write(tmp_path / "a.jsonl", examples)
    again = list(formats.read(tmp_path / "a.jsonl", logic))
    assert again == examples and [example.equation.signature for example in again] == [logic, logic]
    said = r"a.jsonl:1: Its operators are those of 'logic', not of 'math', the language of audit.* Give the run"
    assert_raises(DataError, said, list, formats.read(tmp_path / "a.jsonl"))
    formats.write(tmp_path / "b.jsonl", [Example(Equation.parse("x = y"))])
    assert_raises(DataError, "those of 'math', not of 'logic'", list, formats.read(tmp_path / "b.jsonl", logic))
    with pytest.raises(DataError, match="The authors' format has the operators of 'math', not of 'logic'"):
        formats.write(tmp_path / "a.json", examples)


def test_whole_characters_and_equal_keys_of_different_objects_are_read(tmp_path):
    changes = {"id": "\N{VIOLIN} \\ud800", "pair": "\N{VIOLIN}", "certificate": {"verdict": "holds", "id": {"id": ["id"]}}}
    written = {**GOOD, **changes}
    lines = json.dumps(written), json.dumps({**written, "id": "b"}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    first, second = formats.read(tmp_path / "a.jsonl")
    assert (first.id, first.pair, first.certificate) == (written["id"], "\N{VIOLIN}", written["certificate"])
    assert dataclasses.replace(first, id="b") == second


ENCODED = {
    ".jsonl": '{"label": 1, "text": "x = x", "id": "\u00e9"}\n',
    ".tsv": "=\ta\t\u00e9\n",
    ".json": '[[], [\n{"equation": {"func": "Equality,Pi,#,#,Pi,#,#", "vars": ",,#,#,,#,#"}, "label": "1", "\u00e9": 1}]]',
    ".toml": 'classes = ["a", "\u00e9"]\n[operators]\nor = 2\n',
}
ENCODED[".txt"] = ENCODED[".tsv"].removeprefix("=\t")
ENCODINGS = {
    "utf-16": (b"", "UTF-16"),
    "utf-16-be": (codecs.BOM_UTF16_BE, "UTF-16"),
    "utf_16_le": (b"", "UTF-16LE"),
    "utf_16_be": (b"", "UTF-16BE"),
    "latin1": (b"", "LATIN1"),
}


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("suffix", ENCODED)
def test_another_encoding_than_utf8_is_named_with_the_command_that_converts_it(tmp_path, suffix, packed):
    path = tmp_path / f"a{suffix}{'' if suffix == '.toml' else packed}"

    def read(content):
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        if suffix == ".toml":
            return languages.read(path)
        return list(formats.read(path, languages.find("math" if suffix.startswith(".json") else "logic")))

    assert read(ENCODED[suffix].encode("utf-8-sig")) and read(ENCODED[suffix].encode())
    for encoding, (mark, name) in ENCODINGS.items():
        with pytest.raises((DataError, ConfigurationError), match=rf"not UTF-8.*iconv -f {name} -t UTF-8\.$") as caught:
            read(mark + ENCODED[suffix].encode(encoding))
        line = "" if suffix == ".toml" else f":{1 + (name == 'LATIN1') * (suffix == '.json')}"
        assert str(caught.value).startswith(f"{path}{line}: ")
