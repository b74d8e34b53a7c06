import json
import struct

import pytest

from dgl_treestack.cli.inspect import inspect
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.graph import from_expressions
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.errors import DataError, TreestackError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.networkx import write
from dgl_treestack.expression.operators import Operator, Signature
from dgl_treestack.inspection import drawing
from dgl_treestack.inspection.table import summarise, summary_text

TEXTS = ["sin(x)**2 + cos(x)**2 = 1", "x = y", "x + 0 = x"]


@pytest.fixture
def file(tmp_path):
    formats.write(tmp_path / "a.jsonl", [Example(Equation.parse(text), 1, f"e{i}") for i, text in enumerate(TEXTS)])
    return tmp_path / "a.jsonl"


def test_counts():
    summary = summarise(from_expressions([Equation.parse(written) for written in TEXTS], PRESETS["canonical"]))
    assert [summary[name] for name in ("graphs", "nodes", "edges", "leaves")] == [3, 19, 16, 10]
    assert summary["operators"] == {"Equality": 3, "Add": 2, "Pow": 2, "cos": 1, "sin": 1}
    assert summary["leaf_texts"]["Symbol x"] == 5
    assert summary["depths"] == {1: 1, 2: 1, 4: 1}
    assert summary["levels"] == [10, 4, 3, 1, 1]
    assert "graphs 3, nodes 19" in summary_text(summary)


def test_command_prints_json_and_draws(file, tmp_path, capsys):
    inspect(str(file), limit=1, equation="e2", output=tmp_path / "t.svg", json=True)
    assert json.loads(capsys.readouterr().out)["graphs"] == 1
    assert "<svg" in (tmp_path / "t.svg").read_text()
    inspect(str(file), limit=0, output=tmp_path / "t.png", vocabulary="released")
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    assert "graphs 3" in capsys.readouterr().out


def test_places_keep_the_order_of_children_and_overlap_nowhere():
    tree = Expression.parse("(x + y)*sin(z - 2)")
    positions = drawing.layout(write(tree))
    assert len(set(positions.values())) == tree.size
    for node in range(tree.size):
        children = tree.children(node)
        assert [positions[child][0] for child in children] == sorted(positions[child][0] for child in children)
        assert all(positions[child][1] == positions[node][1] + 1 for child in children)


def test_wrong_arguments_are_refused_before_anything_is_printed(file, tmp_path, capsys):
    for message, options in (
        ("--limit -1 is negative", {"limit": -1}),
        ("No equation has the id 'e9'", {"equation": "e9"}),
        (r"\.png or \.svg", {"output": tmp_path / "t.pdf"}),
        ("Name their run folders", {"html": tmp_path / "page.html"}),
    ):
        with pytest.raises(TreestackError, match=message):
            inspect(str(file), json=True, **options)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("text", "message"), [("theta = x", "no row for Symbol 'theta'"), ("_ = x", "A blank")])
def test_a_leaf_outside_the_vocabulary_is_named_with_file_and_line(tmp_path, text, message):
    path = tmp_path / "a.jsonl"
    formats.write(path, [Example(Equation.parse(t), None, f"e{i}") for i, t in enumerate(["x = x", text, "y = y"])])
    with pytest.raises(DataError, match=message) as caught:
        inspect(str(path), limit=0)
    assert str(caught.value).startswith(f"{path}:2: ")
    inspect(str(path), limit=1)


def comb(count):
    """A tree as wide and as deep as so many operators can make it."""
    return Expression.from_prefix("Add Symbol:x " * count + "Symbol:x")


def test_a_picture_has_at_most_8000_pixels_a_side():
    figure = drawing.draw(comb(248))
    assert max(figure.get_size_inches()) * figure.dpi == pytest.approx(8000)
    assert drawing.draw(comb(3)).dpi == 150
    with pytest.raises(DataError, match="too large to draw"):
        drawing.draw(comb(251))


def test_saving_keeps_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "MAX_PIXELS", 600)
    equation = Equation.of(comb(20), Expression.parse("y"))
    formats.write(tmp_path / "a.jsonl", [Example(equation, 0, "comb")])
    inspect(str(tmp_path / "a.jsonl"), output=tmp_path / "t.png")
    sides = struct.unpack(">II", (tmp_path / "t.png").read_bytes()[16:24])
    assert 590 <= max(sides) <= 600


def test_text_is_never_read_as_mathematics(tmp_path):
    signature = Signature("money", (Operator("$\\frac$", 2), Operator("$", 1)))
    tree = Expression.from_prefix("$\\frac$ $ Symbol:x Pi", signature)
    drawing.draw(tree).savefig(tmp_path / "t.svg")
    drawing.draw(tree, title="$\\frac$").savefig(tmp_path / "t.png")


def test_words_of_many_bytes_are_shortened_on_the_screen_alone(tmp_path, capsys):
    words = [f"http://www.example.org/a/very/long/address/of/a/film/review/page{i}.html" for i in range(2)] + ["字" * 90]
    path = tmp_path / "a.txt"
    path.write_text("".join(f"(3 (2 see) (3 {word}))\n" for word in words))
    inspect(str(path), language="sentiment")
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[1] for line in lines if line.startswith("  Word ")]
    assert shown == ["see", *[words[0][:54] + "…"] * 2, "字" * 54 + "…"]
    inspect(str(path), language="sentiment", json=True)
    counts = json.loads(capsys.readouterr().out)["leaf_texts"]
    assert counts == {"Word see": 3, **{f"Word {word}": 1 for word in words}}
    inspect(str(path), language="sentiment", output=tmp_path / "a.graphml")
    assert words[0] in (tmp_path / "a.graphml").read_text()
