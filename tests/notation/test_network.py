import networkx as nx
import pytest
from hypothesis import given
from trees import expressions

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.notation import network


@given(expressions())
def test_round_trip_whatever_the_nodes_are_called(tree):
    graph = network.write(tree)
    renamed = nx.relabel_nodes(graph, {node: f"node {-node}" for node in graph})
    assert network.read(graph) == tree
    assert network.read(renamed) == tree


def test_two_roots_are_no_tree():
    graph = network.write(Expression.parse("x + 1"))
    graph.add_node("stray", name="Pi", text="pi")
    with pytest.raises(ExpressionError, match="2 roots"):
        network.read(graph)
