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
    for node, (name, text) in enumerate(zip(expression.names, expression.texts, strict=True)):
        graph.add_node(node, name=name, text=text)
    for node in range(expression.size):
        for slot, child in enumerate(expression.children(node)):
            graph.add_edge(child, node, slot=slot)
    return graph


def read(graph: "nx.DiGraph[Any]", signature: Signature = MATH) -> Expression:
    """The tree of a graph, whose nodes may be any objects. signature: of its operators.

    Raises ExpressionError if the graph is not a tree of this form.
    """
    if not graph.is_directed() or graph.is_multigraph():
        raise ExpressionError(f"A tree is read from a networkx.DiGraph, not from a {type(graph).__name__}.")
    roots = [node for node, degree in graph.out_degree() if degree == 0]
    if len(roots) != 1 or graph.number_of_edges() != graph.number_of_nodes() - 1:
        raise ExpressionError(
            f"Not a tree: {len(roots)} roots, {graph.number_of_nodes()} nodes, {graph.number_of_edges()} edges. "
            "Every node but one has exactly one edge to its parent."
        )
    nodes: list[Node] = []
    pending = list(roots)
    while pending:
        node = pending.pop()
        children = _children(graph, node)
        pending.extend(reversed(children))
        attributes = graph.nodes[node]
        for key, types in (("name", str), ("text", (str, type(None)))):
            if key not in attributes or not isinstance(attributes[key], types):
                raise ExpressionError(
                    f"The node {node!r} has {f'the {key} {attributes[key]!r}' if key in attributes else f'no {key}'}. "
                    "Set a name, and a text: a string at a leaf, None at an operator."
                )
        nodes.append((attributes["name"], attributes["text"], len(children)))
    if len(nodes) != graph.number_of_nodes():
        raise ExpressionError(
            f"Not a tree: {len(nodes)} of {graph.number_of_nodes()} nodes are connected to the root {roots[0]!r}. "
            "Take the cycle out."
        )
    return Expression.from_nodes(nodes, signature)


def _children(graph: "nx.DiGraph[Any]", node: Any) -> list:
    """The children of a node in the order of their slots, which must be 0, 1, ..."""
    child_of_slot: dict[int, Any] = {}
    children = list(graph.predecessors(node))
    for child in children:
        slot = graph.edges[child, node].get("slot")
        if not isinstance(slot, Integral) or int(slot) not in range(len(children)) or int(slot) in child_of_slot:
            raise ExpressionError(
                f"The edge {child!r} -> {node!r} has the slot {slot!r}; "
                f"the slots of {len(children)} children are 0 to {len(children) - 1}, each once."
            )
        child_of_slot[int(slot)] = child
    return [child_of_slot[slot] for slot in range(len(children))]
