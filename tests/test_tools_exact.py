"""What evaluation reaches without a network."""

import csv

from dgl_treestack import Equation, Example
from dgl_treestack.data import formats
from tools import exact

TEXTS = {"x + y = y + x": 1, "sin(x) = cos(x)": 0, "1/(x - x) = y": 0, "sin(x)**2 + cos(x)**2 = 1": 1, "x**2 = x*y": 1}


def test_sides_that_differ_at_a_point_are_no_equation(tmp_path, monkeypatch):
    """The third is undefined at every point, and the label of the last is wrong."""
    examples = [Example(Equation.parse(text), label, id=text) for text, label in TEXTS.items()]
    for name in ("paper", "deep"):
        (tmp_path / name).mkdir()
        formats.write(tmp_path / name / "test.jsonl.gz", examples)
    monkeypatch.setattr(exact, "SETS", {"test": ("paper", (1, 9)), "deeper": ("deep", (4, 9))})
    monkeypatch.setattr(exact, "OUTPUT", tmp_path / "table.csv")
    exact.main(tmp_path)
    rows = csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    lines = {(line["measured"], line["model"]): line["ours"] for line in rows}
    assert lines["test", "exact evaluation, trusted"] == "60.0" and lines["test", "no trusted point"] == "20.0"
    assert lines["test", "exact evaluation, ignoring doubt"] == "60.0"
    assert lines["deeper", "exact evaluation, trusted"] == "50.0", "two are of depth 4"
