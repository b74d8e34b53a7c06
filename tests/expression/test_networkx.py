import networkx as nx
import pytest
from hypothesis import given
from trees import expressions

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.expression import networkx as network


@given(expressions())
def test_round_trip_whatever_the_nodes_are_called(tree):
    graph = network.write(tree)
    renamed = nx.relabel_nodes(graph, {node: f"node {-node}" for node in graph})
    assert network.read(graph) == tree
    assert network.read(renamed) == tree


def tree_of(nodes, edges):
    """A graph of (name, text) nodes and (child, parent, slot) edges."""
    graph = nx.DiGraph()
    for i, (name, text) in enumerate(nodes):
        graph.add_node(i, name=name, text=text)
    for child, parent, slot in edges:
        graph.add_edge(child, parent, slot=slot)
    return graph


SINE, PI, SUM = ("sin", None), ("Pi", "pi"), ("Add", None)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (tree_of([SINE, SINE, PI], [(0, 1, 0), (1, 0, 0)]), r"1 of 3 nodes are connected to the root 2.* Take the cycle out"),
        (tree_of([SINE], [(0, 0, 0)]), "0 roots"),
        (tree_of([PI, PI], []), "2 roots"),
        (nx.Graph(), r"read from a networkx\.DiGraph"),
        (nx.MultiDiGraph(), r"read from a networkx\.DiGraph"),
    ],
)
def test_what_is_no_tree_is_refused(graph, message):
    with pytest.raises(ExpressionError, match=message):
        network.read(graph)


@pytest.mark.parametrize("slots", [(0, 0), (1, 1), (0, 2), (-1, 0), (1, 2), (None, 0), ("0", "1"), (0.0, 1), ([], 1)])
def test_slots_are_counted_from_zero_each_once(slots):
    graph = tree_of([SUM, ("One", "1"), PI], [(1, 0, slots[0]), (2, 0, slots[1])])
    with pytest.raises(ExpressionError, match=r"has the slot .* are 0 to 1, each once"):
        network.read(graph)
    del graph.edges[1, 0]["slot"]
    with pytest.raises(ExpressionError, match="has the slot"):
        network.read(graph)


@pytest.mark.parametrize("key", ["name", "text"])
def test_missing_and_strange_attributes_are_refused(key):
    graph = network.write(Expression.parse("x + 1"))
    graph.nodes[2][key] = 1
    with pytest.raises(ExpressionError, match=f"The node 2 has the {key} 1"):
        network.read(graph)
    del graph.nodes[2][key]
    with pytest.raises(ExpressionError, match=f"The node 2 has no {key}"):
        network.read(graph)
