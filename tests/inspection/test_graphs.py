"""Any DGL graph looked into: as a table, in NetworkX, in GraphML, laid out; `treestack inspect` of saved graphs."""

import io
import itertools
import json
import random

import networkx as nx
import numpy as np
import pytest
import torch
from each_case import assert_raises, cases
from every_cell import VOCABULARY, make, some_trees

from dgl_treestack import MATH, Equation, Example, Expression, Vocabulary, _dgl, cli, describe, dgl, to_networkx
from dgl_treestack.data import formats, graph
from dgl_treestack.data.wellformed import check
from dgl_treestack.errors import ConfigurationError, DataError, GraphError
from dgl_treestack.expression import networkx
from dgl_treestack.expression.language import find
from dgl_treestack.inspection import drawing, graph_file
from dgl_treestack.inspection.network import write_graphml
from dgl_treestack.inspection.table import nodes_below, rows
from dgl_treestack.propagate import propagate

TEXTS = ["sin(x)**2 + cos(x)**2 = 1", "x + 0 = y", "2*x = x + x"]
EQUATIONS = [Equation.parse(text) for text in TEXTS]


def batch_of(trees):
    """A batch with states and signals."""
    batch = graph.from_expressions(trees, VOCABULARY)
    with torch.no_grad():
        propagate(batch, make("tree_smu", stack_size=3), signals=["push", "forget"])
    return batch


def shared(same=False):
    """sin(x) + cos(x) over one x; with `same`, x + x over it."""
    op = [MATH.index["Add"], -1] if same else [MATH.index["Add"], MATH.index["sin"], MATH.index["cos"], -1]
    ends = ([1, 1], [0, 0], [0, 1]) if same else ([1, 2, 3, 3], [0, 0, 1, 2], [0, 1, 0, 0])
    nodes = {"op": op, "token": [-1] * (len(op) - 1) + [0], "number": [0.0] * len(op)}
    return graph.from_columns({k: np.array(v) for k, v in nodes.items()}, tuple(map(np.array, ends)))


def printed(batch, **options):
    described = describe(batch, file=(buffer := io.StringIO()), **options)
    return buffer.getvalue(), described


def test_a_row_per_node_with_what_the_nodes_carry():
    batch = batch_of(EQUATIONS)
    text, described = printed(batch)
    lines = text.splitlines()
    assert lines[0].split() == ["tree", "node", "name", "kind", "children", "depth", "forget", "push", "h", "stack"]
    assert len(lines) == 1 + batch.num_nodes() == 1 + len(described)
    _, names = graph.node_names(batch)
    for node, row in enumerate(described):
        written = row["name"] if row["kind"] == "operator" else f"{row['kind']}:{row['name']}"
        assert (row["node"], written) == (node, names[node])
        assert row["children"] == [child for child in check(batch, MATH).children[node].tolist() if child >= 0]
        assert row["h"] == pytest.approx(float(batch.ndata["h"][node].norm()))
        assert row["stack"] == pytest.approx(batch.ndata["stack"][node].view(3, -1).norm(dim=1).tolist())
        push, forget = batch.ndata["signal/push"][node].mean(), batch.ndata["signal/forget"][node].mean(1)
        is_silent = row["name"] == "Equality" or not row["children"]
        assert row["signals"]["push"] == (None if is_silent else pytest.approx(float(push)))
        assert row["signals"]["forget"] == (None if is_silent else pytest.approx(forget[: len(row["children"])].tolist()))
    assert [row["depth"] for row in described if row["name"] == "Equality"] == [4, 2, 2]
    assert [row["tree"] for row in described] == np.repeat([0, 1, 2], batch.batch_num_nodes()).tolist()


def test_shared_nodes_no_states_a_stack_of_no_rows_and_nothing_at_all():
    _, described = printed(shared(), vocabulary=VOCABULARY)
    assert [row["children"] for row in described] == [[1, 2], [3], [3], []]
    assert described[3] == {"tree": 0, "node": 3, "name": "var_0", "kind": "Symbol", "children": [], "depth": 0, "signals": {}}
    assert printed(shared(same=True), vocabulary=VOCABULARY)[1][0]["children"] == [1, 1]
    empty = graph.from_expressions([], VOCABULARY)
    assert printed(empty)[1] == [] and len(to_networkx(empty)) == 0
    assert "and 3 more nodes" in printed(shared(), vocabulary=VOCABULARY, limit=1)[0]
    assert_raises(ConfigurationError, "-1 is negative", describe, shared(), limit=-1)
    batch = graph.from_expressions([Expression.parse("sin(x)")], VOCABULARY)
    batch.ndata["stack"] = torch.tensor([[3.0, 4.0, 0.0]] * 2)
    assert [row["stack"] for row in rows(batch)] == [5, 5] and "h" not in rows(batch)[0]
    batch.ndata["h"] = torch.ones(2, 2)
    assert rows(batch)[0]["stack"] == 5


def test_names_that_cannot_be_read():
    batch = graph.from_expressions([Expression.parse("sin(x)")], VOCABULARY)
    no_text = torch.tensor([[*b"sin", *[0] * 61], [*b"Symbol:\xf8", *[0] * 56]], dtype=torch.uint8)
    short = torch.zeros(2, 3, dtype=torch.uint8)
    for values, message in ((short.float(), "torch.uint8|64 bytes"), (short, "holds 64 bytes"), (no_text, "no UTF-8")):
        batch.ndata["text"] = values
        assert_raises(GraphError, message, rows, batch, MATH, VOCABULARY)
    del batch.ndata["text"]
    batch.ndata["token"] = torch.tensor([-1, 99])
    assert_raises(GraphError, "token = 99", rows, batch, MATH, VOCABULARY)
    lists, words = find("listops"), Vocabulary.of_words("12")
    batch = graph.from_expressions([Expression.parse("[MAX 1 2 ]", lists)], words)
    del batch.ndata["text"]
    with pytest.raises(GraphError, match=r"The vocabulary does not fit 'math', mathematics\. Pass the signature of the graph"):
        describe(batch, vocabulary=words)
    assert [row["name"] for row in describe(batch, lists, words)] == ["MAX", "1", "2"]


def test_networkx_has_it_all_and_is_read_back_also_from_graphml(tmp_path):
    trees = some_trees(2, 6)
    batch = batch_of(trees)
    network = to_networkx(batch)
    for name, values in batch.ndata.items():
        if name != "text":
            assert [data for _, data in network.nodes(data=name)] == values.tolist()
    names = {"tree": "tree", "depth": "depth", "norm/h": "h", "norm/stack": "stack", "mean/push": "push"}
    for row in rows(batch):
        data = network.nodes[row["node"]]
        assert {name: data[name] for name in names} == {name: (row | row["signals"])[key] for name, key in names.items()}
    for root, tree in zip(graph.roots(batch).tolist(), trees, strict=True):
        assert networkx.read(network.subgraph({root, *nx.ancestors(network, root)})).prefix() == tree.prefix()
    assert list(to_networkx(shared(same=True), MATH, VOCABULARY).edges(data="slot")) == [(1, 0, [0, 1])]
    write_graphml(network, tmp_path / "a.graphml")
    back = nx.read_graphml(tmp_path / "a.graphml", node_type=int)
    assert set(back.edges(data="slot")) == set(network.edges(data="slot"))
    for node, data in network.nodes(data=True):
        read = {name: json.loads(value) if isinstance(data[name], list) else value for name, value in back.nodes[node].items()}
        assert read == {name: value for name, value in data.items() if value is not None}
    network.nodes[1]["text"] = "a\x01"
    assert_raises(DataError, "GraphML cannot hold", write_graphml, network, tmp_path / "b.graphml")
    assert [path.name for path in tmp_path.iterdir()] == ["a.graphml"]


def test_the_layout_of_trees_shared_nodes_and_several_trees():
    """Leaves are side by side, an operator is above the middle of its children."""
    tree = Expression.parse("sin(x)**2 + y")
    assert tree.prefix() == "Add Pow sin Symbol:x Integer:2 Symbol:y"
    assert drawing.layout(networkx.write(tree)) == dict(enumerate([(1.25, 0), (0.5, 1), (0, 2), (0, 3), (1, 2), (2, 1)]))
    assert drawing.layout(networkx.write(Expression.from_prefix("sin " * 3000 + "Symbol:x")))[3000] == (0, 3000)
    positions = drawing.layout(to_networkx(shared(), MATH, VOCABULARY))
    assert positions == {0: (0.5, 0), 1: (0, 1), 2: (1, 1), 3: (0, 2)}
    two_graphs = to_networkx(dgl.batch([shared(), shared(same=True)]), MATH, VOCABULARY)
    assert drawing.layout(two_graphs) == {**positions, 4: (2, 0), 5: (2, 1)}
    assert len(drawing.draw_network(two_graphs, "two").axes[0].texts) == 6
    rng = random.Random(1)
    for _ in range(20):  # any graph with edges that rise: no two nodes have the same position
        network = nx.DiGraph()
        network.add_nodes_from(range(30))
        for child in range(1, 30):
            parents = rng.sample(range(child), min(child, rng.randrange(3)))
            network.add_edges_from((child, parent, {"slot": child}) for parent in parents)
        positions = drawing.layout(network)
        assert len(set(positions.values())) == len(positions) == 30
        assert all(positions[child][1] > positions[parent][1] for child, parent in network.edges)
    assert_raises(GraphError, "cycle", drawing.layout, nx.DiGraph([(0, 1, {"slot": 0}), (1, 0, {"slot": 0})]))
    assert drawing.layout(nx.DiGraph()) == {}
    assert_raises(DataError, "of 0 nodes cannot be drawn", drawing.draw_network, nx.DiGraph())


@pytest.fixture
def file(tmp_path):
    _dgl.save_graphs(str(tmp_path / "a.bin"), dgl.unbatch(batch_of(EQUATIONS)))
    return tmp_path / "a.bin"


def test_command_counts_and_describes_a_file_of_graphs(file, tmp_path, treestack):
    out, batch = treestack("inspect", file), batch_of(EQUATIONS)
    assert "graphs 3, nodes 23" in out and "\ntree 0\n" in out and "push" in out
    of_tree = printed(dgl.unbatch(batch)[0])[0].splitlines()
    assert out.split("\ntree 0\n")[1].splitlines()[1:] == [line.rstrip() for line in of_tree[1:]]
    second = ("--equation", 2, "--limit", 2, "--json", "--output", tmp_path / "t.graphml")
    answer = json.loads(treestack("inspect", file, *second))
    assert answer["graphs"] == 2 and answer["rows"] == [row for row in rows(batch) if row["tree"] == 2]
    below = nodes_below(check(batch, MATH), graph.roots(batch).tolist()[2:])
    assert str(networkx.read(to_networkx(batch, nodes=below))) == TEXTS[2]
    assert sorted(nx.read_graphml(tmp_path / "t.graphml", node_type=int)) == [row["node"] for row in answer["rows"]]
    treestack("inspect", file, "--output", tmp_path / "t.svg")
    assert "<svg" in (tmp_path / "t.svg").read_text()
    _dgl.save_graphs(str(file), [shared(), shared(same=True)])
    for tree, suffix in itertools.product((0, 1), ("png", "graphml")):
        treestack("inspect", file, "--equation", tree, "--output", tmp_path / f"{tree}.{suffix}")
        assert (tmp_path / f"{tree}.{suffix}").stat().st_size > 500


def test_a_data_file_is_written_as_graphml_too(tmp_path, treestack):
    formats.write(tmp_path / "a.jsonl", [Example(tree, 1, f"e{i}") for i, tree in enumerate(EQUATIONS)])
    arguments = ("inspect", tmp_path / "a.jsonl", "--equation", "e1", "--output", tmp_path / "t.graphml")
    treestack(*arguments)
    assert nx.read_graphml(tmp_path / "t.graphml").number_of_nodes() == 5
    assert "leave --run out" in treestack(*arguments, "--run", tmp_path, code=2)


def test_a_damaged_file_never_ends_the_command(file, capfd):
    rng, whole = np.random.default_rng(3), file.read_bytes()
    contents = [whole[: len(whole) * i // 6] for i in range(6)]
    for i in range(6):
        flipped = np.frombuffer(whole, dtype=np.uint8).copy()
        at = rng.integers(0, min(len(whole), 4 ** (i + 3)), size=1 + 2 * i)
        flipped[at] ^= rng.integers(1, 256, size=len(at), dtype=np.uint8)
        contents.append(flipped.tobytes())
    for i, content in enumerate(contents):
        file.write_bytes(content)
        with pytest.raises(SystemExit) as left:
            cli.main(["inspect", str(file)])
        code, (_, err) = left.value.code or 0, capfd.readouterr()
        assert code == 2 or (code == 0 and i >= 6)
        assert (err.count("error: "), err.count("\n")) == ((1, 1) if code else (0, 0)), err


@cases(
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
)
def test_what_a_file_of_graphs_is_refused_for(file, tmp_path, treestack, monkeypatch, arguments, message):
    _dgl.save_graphs(str(tmp_path / "mixed.bin"), [graph.from_expressions(EQUATIONS, VOCABULARY), batch_of(EQUATIONS)])
    _dgl.save_graphs(str(tmp_path / "types.bin"), [dgl.heterograph({("a", "to", "b"): ([0], [0])})])
    _dgl.save_graphs(str(tmp_path / "empty.bin"), [graph.from_expressions([], VOCABULARY)])
    _dgl.save_graphs(str(tmp_path / "other.bin"), [dgl.graph(([0], [1]))])
    monkeypatch.chdir(tmp_path)
    error = treestack("inspect", *arguments, code=2)
    assert error.count("\n") == 1 and message in error


@pytest.mark.parametrize("sparse", ["coo", "csr", "csc"])
@pytest.mark.parametrize("number", [torch.int64, torch.int32])
def test_a_file_of_graphs_is_read_as_it_was_written(tmp_path, sparse, number):
    batch = batch_of(EQUATIONS)
    parts = dgl.unbatch(batch if number is torch.int64 else batch.int())
    _dgl.save_graphs(str(tmp_path / "a.bin"), [part.formats(sparse) for part in parts])
    written, read = dgl.batch(parts), graph_file.read(tmp_path / "a.bin")
    assert read.idtype == number and read.batch_num_nodes().tolist() == written.batch_num_nodes().tolist()
    for frame in ("ndata", "edata"):
        assert set(getattr(read, frame)) == set(getattr(written, frame))
        for name, values in getattr(written, frame).items():
            assert values.dtype == getattr(read, frame)[name].dtype and torch.equal(values, getattr(read, frame)[name])
    assert all(torch.equal(a, b) for a, b in zip(read.edges(order="eid"), written.edges(order="eid"), strict=True))
