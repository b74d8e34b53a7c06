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
# The resolution is lowered for a wide or deep tree until neither side of its picture has more than MAX_PIXELS.
RESOLUTION, MAX_PIXELS = 150, 8000

# Two shades that also differ in grey.
OPERATOR_COLOUR, LEAF_COLOUR = "#cfe0f3", "#fbf2d5"


def layout(network: "nx.DiGraph[Any]") -> dict[Any, tuple[float, int]]:
    """(x, level) of every node of a graph with edges child -> parent that have a `slot`, or a list of slots.

    Leaves stand side by side in the order of slots, tree after tree, an operator above the middle of its children; the level is
    the longest way down from a root. A node with several parents stands below the first of them alone, and an operator whose
    children all stand elsewhere has a place like a leaf's, so that no two nodes share a place.
    Raises GraphError for a cycle.
    """
    levels, below = _levels(network), _first_children(network)
    columns, free = dict[Any, float](), 0
    for node, children in below.items():
        if not children:
            columns[node], free = float(free), free + 1
    for node in reversed(below):
        if children := below[node]:
            columns[node] = (columns[children[0]] + columns[children[-1]]) / 2
    return {node: (columns[node], levels[node]) for node in network}


def _first_children(network: "nx.DiGraph[Any]") -> dict[Any, list]:
    """Nodes on the way down from the roots, each with those of its children that are met first below it, by slot."""
    below: dict[Any, list] = {}
    pending = [(node, None) for node in reversed([node for node, degree in network.out_degree() if not degree])]
    while pending:
        node, parent = pending.pop()
        if node in below:
            continue
        below[node] = []
        if parent is not None:
            below[parent].append(node)
        children = sorted(network.predecessors(node), key=lambda child: _first_slot(network.edges[child, node]))
        pending.extend((child, node) for child in reversed(children))
    return below


def _first_slot(edge: dict[str, Any]) -> int:
    slot = edge["slot"]
    return int(slot[0] if isinstance(slot, (list, tuple)) else slot)


def _levels(network: "nx.DiGraph[Any]") -> dict[Any, int]:
    try:
        parents_first = list(nx.topological_sort(network))[::-1]
    except nx.NetworkXUnfeasible:
        raise GraphError("The graph has a cycle and no layout. Remove one of its edges.") from None
    levels = dict.fromkeys(network, 0)
    for node in parents_first:
        for child in network.predecessors(node):
            levels[child] = max(levels[child], levels[node] + 1)
    return levels


def place(tree: Expression) -> list[tuple[float, int]]:
    """(x, y) of every node: leaves side by side, an operator above the middle of its children, y the level below the root."""
    places = layout(write(tree))
    return [places[node] for node in range(tree.size)]


def label(tree: Expression, node: int) -> str:
    """What is written into a node: an operator's sign or name, a leaf's text."""
    return _label(tree.names[node], tree.texts[node], tree.signature)


def _label(name: str, text: str | None, signature: Signature) -> str:
    if text is not None:
        return text
    return (signature[name].symbol if name in signature else "") or name


def draw(tree: Expression, title: str = "", *, room: float = 0.75) -> Figure:
    """A tree, under its text if there is no title: see `draw_network`."""
    _check_size(tree.size)
    return draw_network(write(tree), title or shortened(str(tree)), tree.signature, room=room)


def draw_network(network: "nx.DiGraph[Any]", title: str = "", signature: Signature = MATH, *, room: float = 0.75) -> Figure:
    """A graph with its roots on top, at most 8000 pixels wide and high when saved with the figure's own resolution.

    network: nodes with `name` and `text`, edges child -> parent with `slot`. signature: has the signs of operators. room:
    inches from level to level. Raises DataError for no node and beyond 500 nodes, which no page holds, GraphError for a cycle.
    """
    _check_size(network.number_of_nodes())
    places = layout(network)
    width, depth = 1 + max(x for x, _ in places.values()), max(level for _, level in places.values())
    inches = max(4.0, 0.62 * width + 0.8), max(2.5, room * (depth + 1) + 0.6)
    figure = Figure(figsize=inches, dpi=min(RESOLUTION, MAX_PIXELS / max(inches)), layout="constrained")
    axes = figure.add_subplot()
    nx.draw_networkx_edges(network, places, ax=axes, arrows=False, edge_color="0.6", width=1, node_size=0)
    for is_leaf, shape, colour in ((False, "circle", OPERATOR_COLOUR), (True, "round", LEAF_COLOUR)):
        chosen = [(node, data) for node, data in network.nodes(data=True) if (data["text"] is not None) == is_leaf]
        labels = {node: _label(data["name"], data["text"], signature) for node, data in chosen}
        box = {"boxstyle": f"{shape},pad=0.3", "facecolor": colour, "edgecolor": "0.35", "linewidth": 0.8}
        drawn = nx.draw_networkx_labels(network, places, labels, font_size=9, bbox=box, ax=axes, clip_on=False)
        for text in drawn.values():
            text.set(parse_math=False, zorder=2)
    axes.set_xlim(-0.8, width - 0.2)
    axes.set_ylim(depth + 0.6, -0.6)
    axes.axis("off")
    axes.set_title(title, fontsize=9, wrap=True, parse_math=False)
    return figure


def _check_size(count: int) -> None:
    if count > MAX_NODES:
        raise DataError(f"A tree of {count} nodes is too large to draw; the limit is {MAX_NODES}.")
    if not count:
        raise DataError("There is no node to draw. Give a graph with nodes.")


def shortened(text: str, most: int = 160) -> str:
    """A text that fits over a picture."""
    return text if len(text) <= most else text[: most - 3] + "..."


def save(figure: Figure, output: Path) -> None:
    """Write a picture in the format that the file's suffix names."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=output.suffix[1:], dpi=figure.dpi)
    atomic.write_bytes(output, buffer.getvalue())
