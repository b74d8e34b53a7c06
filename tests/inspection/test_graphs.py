"""Any DGL graph looked into: as a table, in NetworkX, in GraphML, laid out."""

import json
import random

import networkx as nx
import numpy as np
import pytest
import torch
from every_cell import some_trees
from inspection.looked_into import VOCABULARY, batch_of, equations, printed, shared
from trees import random_tree

from dgl_treestack import Vocabulary, _dgl, dgl
from dgl_treestack.data import graph
from dgl_treestack.data.wellformed import check
from dgl_treestack.errors import ConfigurationError, DataError, GraphError
from dgl_treestack.expression import Expression, networkx
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import MATH
from dgl_treestack.inspection import drawing
from dgl_treestack.inspection.network import to_networkx, write_graphml
from dgl_treestack.inspection.table import describe, rows


def test_a_row_per_node_with_what_the_nodes_carry():
    batch = batch_of(equations())
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
        if row["name"] == "Equality" or not row["children"]:
            assert row["signals"] == {"push": None, "forget": None}
        else:
            assert row["signals"]["push"] == pytest.approx(float(batch.ndata["signal/push"][node].mean()))
            forget = batch.ndata["signal/forget"][node].mean(1)
            assert row["signals"]["forget"] == pytest.approx(forget[: len(row["children"])].tolist())
    assert [row["depth"] for row in described if row["name"] == "Equality"] == [4, 2, 2]
    assert [row["tree"] for row in described] == np.repeat([0, 1, 2], batch.batch_num_nodes()).tolist()


def test_a_file_and_dgl_unbatch_keep_equations_and_signals(tmp_path):
    trees = some_trees(5, 12)
    before = batch_of(trees)
    text, described = printed(before, limit=0)
    _dgl.save_graphs(str(tmp_path / "a.bin"), [dgl.batch([before, before])])
    ((loaded,), _) = _dgl.load_graphs(str(tmp_path / "a.bin"))
    parts = dgl.unbatch(graph.restore_batch(loaded))
    assert len(parts) == 2 * len(trees)
    for half in (parts[: len(trees)], parts[len(trees) :]):
        after = dgl.batch(half)
        assert [str(tree) for tree in graph.to_expressions(after)] == [str(tree) for tree in trees]
        assert printed(after, limit=0) == (text, described)


def test_shared_nodes_no_states_and_nothing_at_all():
    _, described = printed(shared(), vocabulary=VOCABULARY)
    assert [row["children"] for row in described] == [[1, 2], [3], [3], []]
    assert described[3] == {
        "tree": 0, "node": 3, "name": "var_0", "kind": "Symbol", "children": [], "depth": 0, "signals": {}
    }  # fmt: skip
    assert printed(shared(same=True), vocabulary=VOCABULARY)[1][0]["children"] == [1, 1]
    empty = graph.from_expressions([], VOCABULARY)
    assert printed(empty)[1] == [] and len(to_networkx(empty)) == 0
    assert "and 3 more nodes" in printed(shared(), vocabulary=VOCABULARY, limit=1)[0]
    with pytest.raises(ConfigurationError, match="-1 is negative"):
        describe(shared(), limit=-1)


def test_a_stack_that_is_not_made_of_rows_has_one_norm():
    batch = graph.from_expressions([Expression.parse("sin(x)")], VOCABULARY)
    batch.ndata["stack"] = torch.tensor([[3.0, 4.0, 0.0]] * 2)
    assert [row["stack"] for row in rows(batch)] == [5, 5] and "h" not in rows(batch)[0]
    batch.ndata["h"] = torch.ones(2, 2)
    assert rows(batch)[0]["stack"] == 5


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        ("text", torch.zeros(2, 64), "torch.uint8|holds 64 bytes"),
        ("text", torch.zeros(2, 3, dtype=torch.uint8), "holds 64 bytes"),
        ("text", torch.tensor([[*b"sin", *[0] * 61], [*b"Symbol:\xf8", *[0] * 56]], dtype=torch.uint8), "no UTF-8"),
        ("token", torch.tensor([-1, 99]), "token = 99"),
    ],
)
def test_names_that_cannot_be_read(feature, values, message):
    batch = graph.from_expressions([Expression.parse("sin(x)")], VOCABULARY)
    if feature == "token":
        del batch.ndata["text"]
    batch.ndata[feature] = values
    with pytest.raises(GraphError, match=message):
        rows(batch, MATH, VOCABULARY)


def test_a_vocabulary_of_another_language():
    batch = graph.from_expressions([Expression.parse("[MAX 1 2 ]", find("listops"))], Vocabulary.of_words("12"))
    del batch.ndata["text"]
    with pytest.raises(GraphError, match=r"The vocabulary does not fit 'math', mathematics\. Pass the signature of the graph"):
        describe(batch, vocabulary=Vocabulary.of_words("12"))
    assert [row["name"] for row in describe(batch, find("listops"), Vocabulary.of_words("12"))] == ["MAX", "1", "2"]


def test_networkx_has_it_all_and_is_read_back():
    trees = some_trees(2, 6)
    batch = batch_of(trees)
    network = to_networkx(batch)
    for name, values in batch.ndata.items():
        if name != "text":
            assert [data for _, data in network.nodes(data=name)] == values.tolist()
    for row in rows(batch):
        data = network.nodes[row["node"]]
        names = {"tree": "tree", "depth": "depth", "norm/h": "h", "norm/stack": "stack"}
        assert {name: data[name] for name in names} == {name: row[key] for name, key in names.items()}
        assert data["mean/push"] == row["signals"]["push"]
    for root, tree in zip(graph.roots(batch).tolist(), trees, strict=True):
        below = network.subgraph({root, *nx.ancestors(network, root)})
        assert networkx.read(below).prefix() == tree.prefix()
    network = to_networkx(shared(same=True), MATH, VOCABULARY)
    assert list(network.edges(data="slot")) == [(1, 0, [0, 1])]


def test_graphml_round_trip(tmp_path):
    batch = batch_of(equations())
    network = to_networkx(batch)
    write_graphml(network, tmp_path / "a.graphml")
    back = nx.read_graphml(tmp_path / "a.graphml", node_type=int)
    assert set(back.edges(data="slot")) == set(network.edges(data="slot"))
    for node, data in network.nodes(data=True):
        read = {name: json.loads(value) if isinstance(data[name], list) else value for name, value in back.nodes[node].items()}
        assert read == {name: value for name, value in data.items() if value is not None}
    network.nodes[1]["text"] = "a\x01"
    with pytest.raises(DataError, match="GraphML cannot hold"):
        write_graphml(network, tmp_path / "b.graphml")
    assert [path.name for path in tmp_path.iterdir()] == ["a.graphml"]


def layout_before(tree):
    """Leaves side by side, an operator above the middle of its children: as the layout was before NetworkX."""
    levels = [0] * tree.size
    for node in range(tree.size):
        for child in tree.children(node):
            levels[child] = levels[node] + 1
    columns = {node: float(i) for i, (node, _, _) in enumerate(tree.leaves())}
    for node in range(tree.size - 1, -1, -1):
        if children := tree.children(node):
            columns[node] = (columns[children[0]] + columns[children[-1]]) / 2
    return [(columns[node], levels[node]) for node in range(tree.size)]


def test_the_layout_of_trees_is_what_it_was():
    rng = random.Random(7)
    for depth in range(9):
        tree = random_tree(rng, depth)
        assert drawing.layout(networkx.write(tree)) == dict(enumerate(layout_before(tree)))
    chain = Expression.from_prefix("sin " * 3000 + "Symbol:x")
    assert drawing.layout(networkx.write(chain))[3000] == (0, 3000)


def test_the_layout_of_shared_nodes_and_of_several_trees():
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
    with pytest.raises(GraphError, match="cycle"):
        drawing.layout(nx.DiGraph([(0, 1, {"slot": 0}), (1, 0, {"slot": 0})]))
    assert drawing.layout(nx.DiGraph()) == {}
    with pytest.raises(DataError, match="no node to draw"):
        drawing.draw_network(nx.DiGraph())
