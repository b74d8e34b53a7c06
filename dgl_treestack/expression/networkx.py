"""NetworkX graphs, read and written: node attributes `name` and `text`, edges child -> parent with attribute `slot`."""

from numbers import Integral
from typing import Any

import networkx as nx

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression.operators import MATH, Node, Signature
from dgl_treestack.expression.tree import Expression


def write(expression: Expression) -> "nx.DiGraph[int]":
    """The tree as a directed graph on its node indices."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for node, (name, text, _) in enumerate(expression.nodes):
        graph.add_node(node, name=name, text=text)
    for node in range(expression.size):
        for slot, child in enumerate(expression.children(node)):
            graph.add_edge(child, node, slot=slot)
    return graph


def read(graph: "nx.DiGraph[Any]", signature: Signature = MATH) -> Expression:
    """The tree of a graph, whose nodes may be any objects. signature: of its operators.

    Raises ExpressionError if the graph is not a tree of this form.
    """
    nodes: list[Node] = []
    roots, fault = [], ""
    if not graph.is_directed() or graph.is_multigraph():
        fault = f"A tree is read from a networkx.DiGraph, not from a {type(graph).__name__}."
    else:
        roots = [node for node, degree in graph.out_degree() if degree == 0]
    pending = roots if len(roots) == 1 and graph.number_of_edges() == graph.number_of_nodes() - 1 else []
    while pending and not fault:
        node = pending.pop()
        attributes = graph.nodes[node]
        for key, types in (("name", str), ("text", (str, type(None)))):
            if key not in attributes or not isinstance(attributes[key], types):
                content = f"the {key} {attributes[key]!r}" if key in attributes else f"no {key}"
                fault = f"The node {node!r} has {content}. Set a name, and a text: a string at a leaf, None at an operator."
        slots = {child: graph.edges[child, node].get("slot") for child in graph.predecessors(node)}
        # NumPy's integers are Integral, too; 0.0 equals 0, and is none.
        if not all(isinstance(slot, Integral) for slot in slots.values()) or {*slots.values()} != {*range(len(slots))}:
            fault = fault or f"The slots of the children of {node!r} are {slots}. Number them from 0 on, each once."
        if not fault:
            pending += sorted(slots, key=slots.__getitem__, reverse=True)
            nodes.append((attributes["name"], attributes["text"], len(slots)))
    if not fault and (not nodes or len(nodes) != graph.number_of_nodes()):
        counts = f"{len(roots)} roots, {graph.number_of_nodes()} nodes, {graph.number_of_edges()} edges"
        rule = "Every node but one has exactly one edge to its parent. Take cycles out."
        fault = f"Not a tree: {counts}, {len(nodes)} nodes connected to one root. {rule}"
    if fault:
        raise ExpressionError(fault)
    return Expression.from_nodes(nodes, signature)
