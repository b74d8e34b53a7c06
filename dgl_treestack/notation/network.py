"""NetworkX graphs, read and written: node attributes `name` and `text`, edges child -> parent with attribute `slot`."""

from typing import Any

import networkx as nx

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Expression, assemble


def write(expression: Expression) -> "nx.DiGraph[int]":
    """The tree as a directed graph on its node indices."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for node, (name, text) in enumerate(zip(expression.names, expression.texts, strict=True)):
        graph.add_node(node, name=name, text=text)
    for node in range(expression.size):
        for slot, child in enumerate(expression.children(node)):
            graph.add_edge(child, node, slot=slot)
    return graph


def read(graph: "nx.DiGraph[Any]") -> Expression:
    """The tree of such a graph, whatever its nodes are called. Raises ExpressionError when it is no tree."""
    tops = [node for node, degree in graph.out_degree() if degree == 0]
    if len(tops) != 1 or graph.number_of_edges() != graph.number_of_nodes() - 1:
        raise ExpressionError(f"Not a tree: {len(tops)} roots, {graph.number_of_edges()} edges.")
    nodes: list[tuple[str, str | None, int]] = []
    pending = tops
    while pending:
        node = pending.pop()
        children = sorted(graph.predecessors(node), key=lambda child: graph.edges[child, node]["slot"])
        pending.extend(reversed(children))
        nodes.append((graph.nodes[node]["name"], graph.nodes[node]["text"], len(children)))
    return assemble(nodes)
