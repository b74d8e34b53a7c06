"""Trees and other graphs of operators and leaves, laid out and drawn with NetworkX."""

import io
from pathlib import Path
from typing import Any

import networkx as nx
from matplotlib.figure import Figure

from dgl_treestack import atomic
from dgl_treestack.errors import DataError, GraphError
from dgl_treestack.expression import Expression
from dgl_treestack.expression.networkx import write
from dgl_treestack.expression.operators import MATH, Signature

MAX_NODES = 500
# Dots per inch; fewer if a side of the picture would have more than MAX_PIXELS.
RESOLUTION, MAX_PIXELS = 150, 8000
SPACING = 0.75  # inches from level to level

EDGES = 5  # order of drawing: above what is drawn at nodes, such as heat maps, below the labels of nodes

# Two colours that also differ in grey.
OPERATOR_COLOUR, LEAF_COLOUR = "#cfe0f3", "#fbf2d5"


def layout(network: "nx.DiGraph[Any]") -> dict[Any, tuple[float, int]]:
    """Return (x, level) of every node of a graph with edges child -> parent; no two nodes have the same position.

    network: its edges have a `slot`, or a list of slots. The level of a node is the length of the longest path from a root to
    it. Every leaf has a column, in the order of slots, tree after tree; an operator is above the middle of its children. A
    child of several parents belongs to the first of them; an operator all of whose children belong to other parents gets a
    column, like a leaf.
    Raises GraphError for a cycle.
    """
    edges = [
        (int(slot[0] if isinstance(slot, (list, tuple)) else slot), parent, child)
        for child, parent, slot in network.edges(data="slot")
    ]
    downwards: nx.DiGraph[Any] = nx.DiGraph()
    # roots first, with which the search below begins
    downwards.add_nodes_from(node for node, parents in network.out_degree() if not parents)
    downwards.add_nodes_from(network)
    downwards.add_edges_from((parent, child) for _, parent, child in sorted(edges, key=lambda edge: edge[0]))
    try:
        levels = {node: level for level, nodes in enumerate(nx.topological_generations(downwards)) for node in nodes}
    except nx.NetworkXUnfeasible:
        raise GraphError("The graph has a cycle and no layout. Remove one of its edges.") from None
    # These walks are loops, so that a chain of 3,000 nodes needs no recursion.
    children_of = nx.dfs_successors(downwards)  # each child once
    columns = dict[Any, float]()
    order = list(nx.dfs_preorder_nodes(downwards))
    for node in order:
        if node not in children_of:
            columns[node] = float(len(columns))
    for node in reversed(order):
        if node in children_of:
            columns[node] = (columns[children_of[node][0]] + columns[children_of[node][-1]]) / 2
    return {node: (columns[node], levels[node]) for node in network}


def label(name: str, text: str | None, signature: Signature) -> str:
    """Return the label of a node in a picture: a leaf's text, an operator's sign, or its name if it has no sign.

    name, text: of the node, as in `Expression.names` and `Expression.texts`.
    """
    if text is not None:
        return text
    return (signature[name].symbol if name in signature else "") or name


def draw(tree: Expression, title: str = "", *, spacing: float = SPACING) -> Figure:
    """Draw a tree, see `draw_network`. The title is the tree's text by default."""
    return draw_network(write(tree), title or shortened(str(tree)), tree.signature, spacing=spacing)


def draw_network(
    network: "nx.DiGraph[Any]", title: str = "", signature: Signature = MATH, *, spacing: float = SPACING
) -> Figure:
    """Draw a graph with its roots on top, at most 8000 pixels wide and high if saved with the figure's resolution.

    network: nodes with `name` and `text`, edges child -> parent with `slot`. signature: defines the signs of operators.
    spacing: inches from level to level.
    Raises DataError for no node and for more than 500, GraphError for a cycle.
    """
    if not 0 < len(network) <= MAX_NODES:
        raise DataError(f"A graph of {len(network)} nodes cannot be drawn. Give one of 1 to {MAX_NODES} nodes.")
    positions = layout(network)
    width, depth = 1 + max(x for x, _ in positions.values()), max(level for _, level in positions.values())
    inches = max(4.0, 0.62 * width + 0.8), max(2.5, spacing * (depth + 1) + 0.6)
    figure = Figure(figsize=inches, dpi=min(RESOLUTION, MAX_PIXELS / max(inches)), layout="constrained")
    axes = figure.add_subplot()
    edges = nx.draw_networkx_edges(network, positions, ax=axes, arrows=False, edge_color="0.4", width=1, node_size=0)
    if len(network.edges):
        edges.set_zorder(EDGES)
    for is_leaf, shape, colour in ((False, "circle", OPERATOR_COLOUR), (True, "round", LEAF_COLOUR)):
        labels = {
            node: label(data["name"], data["text"], signature)
            for node, data in network.nodes(data=True)
            if (data["text"] is not None) == is_leaf
        }
        box = {"boxstyle": f"{shape},pad=0.3", "facecolor": colour, "edgecolor": "0.35", "linewidth": 0.8}
        texts = nx.draw_networkx_labels(network, positions, labels, font_size=9, bbox=box, ax=axes, clip_on=False)
        for text in texts.values():
            text.set(parse_math=False, zorder=EDGES + 1)
    axes.set_xlim(-0.8, width - 0.2)
    axes.set_ylim(depth + 0.6, -0.6)
    axes.axis("off")
    axes.set_title(title, fontsize=9, wrap=True, parse_math=False)
    return figure


def shortened(text: str) -> str:
    """Return a text of at most 160 characters, for a title."""
    return text if len(text) <= 160 else text[:157] + "..."


def save(figure: Figure, output: Path) -> None:
    """Write a picture atomically, in the format of the path's suffix."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=output.suffix[1:], dpi=figure.dpi)
    atomic.write_bytes(output, buffer.getvalue())
