"""`treestack inspect` of saved DGL graphs."""

import json

import networkx as nx
import numpy as np
import pytest
import torch
from inspection.looked_into import TEXTS, VOCABULARY, batch_of, equations, printed, shared

from dgl_treestack import Expression, Vocabulary, _dgl, cli, dgl
from dgl_treestack.data import formats, graph
from dgl_treestack.data.formats import Example
from dgl_treestack.data.wellformed import check
from dgl_treestack.expression import networkx
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import MATH
from dgl_treestack.inspection import graph_file
from dgl_treestack.inspection.network import to_networkx
from dgl_treestack.inspection.table import nodes_below, rows


def inspect(capsys, *arguments):
    """Exit code, standard output and standard error of the command."""
    with pytest.raises(SystemExit) as left:
        cli.main(["inspect", *map(str, arguments)])
    captured = capsys.readouterr()
    return left.value.code or 0, captured.out, captured.err


@pytest.fixture
def file(tmp_path):
    _dgl.save_graphs(str(tmp_path / "a.bin"), dgl.unbatch(batch_of(equations())))
    return tmp_path / "a.bin"


def test_command_counts_and_describes_a_file_of_graphs(file, tmp_path, capsys):
    code, out, err = inspect(capsys, file)
    assert (code, err) == (0, "")
    assert "graphs 3, nodes 23" in out and "\ntree 0\n" in out and "push" in out
    batch = batch_of(equations())
    assert out.split("\ntree 0\n")[1].splitlines()[1:] == [
        line.rstrip() for line in printed(dgl.unbatch(batch)[0])[0].splitlines()[1:]
    ]
    code, out, _ = inspect(capsys, file, "--equation", 2, "--limit", 2, "--json", "--output", tmp_path / "t.graphml")
    answer = json.loads(out)
    assert (code, answer["graphs"]) == (0, 2)
    assert answer["rows"] == [row for row in rows(batch) if row["tree"] == 2]
    below = nodes_below(check(batch, MATH), graph.roots(batch).tolist()[2:])
    assert str(networkx.read(to_networkx(batch, nodes=below))) == TEXTS[2]
    back = nx.read_graphml(tmp_path / "t.graphml", node_type=int)
    assert sorted(back) == [row["node"] for row in answer["rows"]]
    assert inspect(capsys, file, "--output", tmp_path / "t.svg")[0] == 0
    assert "<svg" in (tmp_path / "t.svg").read_text()


def test_a_file_of_graphs_of_another_language(tmp_path, capsys):
    trees = [Expression.parse("[MAX 2 9 [MIN 4 7 ] ]", find("listops"))]
    _dgl.save_graphs(str(tmp_path / "a.bin"), [graph.from_expressions(trees, Vocabulary.of_words("2479"))])
    code, out, err = inspect(capsys, tmp_path / "a.bin", "--language", "listops")
    assert (code, err) == (0, "") and "graphs 1, nodes 6" in out and "MIN" in out


def test_command_draws_shared_nodes_and_needs_a_vocabulary_then(tmp_path, capsys):
    _dgl.save_graphs(str(tmp_path / "a.bin"), [shared(), shared(same=True)])
    for tree in (0, 1):
        assert inspect(capsys, tmp_path / "a.bin", "--equation", tree, "--output", tmp_path / f"{tree}.png")[0] == 0
        assert (tmp_path / f"{tree}.png").read_bytes().startswith(b"\x89PNG")
        assert inspect(capsys, tmp_path / "a.bin", "--equation", tree, "--output", tmp_path / f"{tree}.graphml")[0] == 0


def test_a_data_file_is_written_as_graphml_too(tmp_path, capsys):
    formats.write(tmp_path / "a.jsonl", [Example(tree, 1, f"e{i}") for i, tree in enumerate(equations())])
    arguments = (tmp_path / "a.jsonl", "--equation", "e1", "--output", tmp_path / "t.graphml")
    code, _, err = inspect(capsys, *arguments)
    assert code == 0, err
    assert nx.read_graphml(tmp_path / "t.graphml").number_of_nodes() == 5
    code, _, err = inspect(capsys, *arguments, "--run", tmp_path)
    assert code == 2 and "leave --run out" in err


def variants(whole):
    rng = np.random.default_rng(3)
    for i in range(6):
        yield whole[: len(whole) * i // 6]
    for i in range(6):
        flipped = np.frombuffer(whole, dtype=np.uint8).copy()
        at = rng.integers(0, min(len(whole), 4 ** (i + 3)), size=1 + 2 * i)
        flipped[at] ^= rng.integers(1, 256, size=len(at), dtype=np.uint8)
        yield flipped.tobytes()


def test_a_damaged_file_never_ends_the_command(file, capfd):
    codes = []
    for content in variants(file.read_bytes()):
        file.write_bytes(content)
        code, _, err = inspect(capfd, file)
        assert code in (0, 2)
        assert (err.count("error: "), err.count("\n")) == ((1, 1) if code else (0, 0)), err
        codes.append(code)
    assert len(codes) == 12 and codes[:6] == [2] * 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.bin",), "none.bin: There is no such file"),
        (("a.bin", "--run", "somewhere"), "Give a file of equations"),
        (("a.bin", "--html", "page.html"), "Give a file of equations"),
        (("a.bin", "--equation", "3"), "--equation 3 is no tree of the file. Give a number from 0 to 2"),
        (("a.bin", "--equation", "e1"), "--equation e1 is no tree"),
        (("a.bin", "--limit", "-1"), "--limit -1 is negative"),
        (("a.bin", "--output", "a.pdf"), r".png or .svg file or written into a .graphml"),
        (("mixed.bin",), "node feature 'h' is"),
        (("types.bin",), "one type of node"),
        (("empty.bin",), "There are no trees"),
        (("other.bin",), "other.bin: There is no graph.ndata['op']"),
    ],
)
def test_what_a_file_of_graphs_is_refused_for(file, tmp_path, capfd, monkeypatch, arguments, message):
    plain = graph.from_expressions(equations(), VOCABULARY)
    _dgl.save_graphs(str(tmp_path / "mixed.bin"), [plain, batch_of(equations())])
    _dgl.save_graphs(str(tmp_path / "types.bin"), [dgl.heterograph({("a", "to", "b"): ([0], [0])})])
    _dgl.save_graphs(str(tmp_path / "empty.bin"), [graph.from_expressions([], VOCABULARY)])
    _dgl.save_graphs(str(tmp_path / "other.bin"), [dgl.graph(([0], [1]))])
    monkeypatch.chdir(tmp_path)
    code, out, err = inspect(capfd, *arguments)
    assert (code, out, err.count("error: "), err.count("\n")) == (2, "", 1, 1)
    assert message in err


@pytest.mark.parametrize("sparse", ["coo", "csr", "csc"])
@pytest.mark.parametrize("number", [torch.int64, torch.int32])
def test_a_file_of_graphs_is_read_as_it_was_written(tmp_path, sparse, number):
    batch = batch_of(equations())
    parts = dgl.unbatch(batch if number is torch.int64 else batch.int())
    _dgl.save_graphs(str(tmp_path / "a.bin"), [part.formats(sparse) for part in parts])
    written, read = dgl.batch(parts), graph_file.read(tmp_path / "a.bin")
    assert read.idtype == number and read.batch_num_nodes().tolist() == written.batch_num_nodes().tolist()
    for frame in ("ndata", "edata"):
        assert set(getattr(read, frame)) == set(getattr(written, frame))
        for name, values in getattr(written, frame).items():
            assert values.dtype == getattr(read, frame)[name].dtype and torch.equal(values, getattr(read, frame)[name])
    assert all(torch.equal(a, b) for a, b in zip(read.edges(order="eid"), written.edges(order="eid"), strict=True))


def test_saved_words_of_many_bytes_are_shortened_and_not_written_as_the_truth(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentiment = find("sentiment")
    tree = Expression.parse(f"(3 (2 see) (3 a{'é' * 30}))", sentiment)
    batch = graph.from_expressions([tree], Vocabulary.of_words(tree.texts[1:]))
    _dgl.save_graphs("a.bin", [batch.formats("coo")])
    code, out, _ = inspect(capfd, "a.bin", "--language", "sentiment", "--output", "a.png")
    assert code == 0 and out.count("a" + "é" * 28 + "…") == 2
    code, _, err = inspect(capfd, "a.bin", "--language", "sentiment", "--output", "a.graphml")
    assert code == 2 and "a.bin: The text of node 2 is cut: it had more than 64 bytes" in err
