import json

import pytest

from dgl_treestack import formats
from dgl_treestack.errors import DataError
from dgl_treestack.expression import Equation
from dgl_treestack.formats import Example
from dgl_treestack.generate.command import audit, audit_files

TEXTS = [("x + y = y + x", 1), ("x = x + 1", 0), ("sqrt(x**2) = x", 1), ("1/0 = 1/0", 1), ("x = y", 1)]


@pytest.fixture
def file(tmp_path):
    examples = [Example(Equation.parse(text), label, text) for text, label in TEXTS]
    formats.write(tmp_path / "a.jsonl", [*examples, *(Example(e.equation, e.label, e.id + " again") for e in examples)])
    return str(tmp_path / "a.jsonl")


def test_verdicts_against_labels(file, capsys):
    assert audit_files([file], as_json=True, progress=False) == 1
    found = json.loads(capsys.readouterr().out)[file]
    assert found["wrong"] == ["x = y", "x = y again"]
    rows = {(row["depth"], row["label"]): row for row in found["verdicts"]}
    assert (rows[2, "1"]["holds"], rows[2, "1"]["undefined"], rows[2, "0"]["refuted"]) == (2, 2, 2)
    assert rows[3, "1"]["conditional"] == 2
    audit_files([file], as_json=False, progress=False)
    assert "2 labels are contradicted: x = y, x = y again" in capsys.readouterr().out


def test_an_empty_file_is_an_error():
    with pytest.raises(DataError, match="no equations"):
        audit([], "empty")
