"""One expression drawn as a tree."""

from matplotlib.figure import Figure

from dgl_treestack.errors import DataError
from dgl_treestack.expression import Expression

MAX_NODES = 500
# The resolution is lowered for a wide or deep tree until neither side of its picture has more than MAX_PIXELS.
RESOLUTION, MAX_PIXELS = 150, 8000

# Two shades that also differ in grey.
OPERATOR_COLOUR, LEAF_COLOUR = "#cfe0f3", "#fbf2d5"


def place(tree: Expression) -> list[tuple[float, int]]:
    """(x, y) of every node: leaves side by side, an operator above the middle of its children, y the level below the root."""
    levels = [0] * tree.size
    for node in range(tree.size):
        for child in tree.children(node):
            levels[child] = levels[node] + 1
    columns = {node: float(i) for i, (node, _, _) in enumerate(tree.leaves())}
    for node in range(tree.size - 1, -1, -1):
        children = tree.children(node)
        if children:
            columns[node] = (columns[children[0]] + columns[children[-1]]) / 2
    return [(columns[node], levels[node]) for node in range(tree.size)]


def label(tree: Expression, node: int) -> str:
    """What is written into a node: an operator's sign or name, a leaf's text."""
    text, name = tree.texts[node], tree.names[node]
    if text is not None:
        return text
    return tree.signature[name].symbol or name


def draw(tree: Expression, title: str = "", *, room: float = 0.75) -> Figure:
    """The tree with its root on top, at most 8000 pixels wide and high when saved with the figure's own resolution.

    room: inches from level to level. Raises DataError beyond 500 nodes: no page holds them.
    """
    if tree.size > MAX_NODES:
        raise DataError(f"A tree of {tree.size} nodes is too large to draw; the limit is {MAX_NODES}.")
    places = place(tree)
    width = 1 + max(x for x, _ in places)
    inches = max(4.0, 0.62 * width + 0.8), max(2.5, room * (tree.depth + 1) + 0.6)
    figure = Figure(figsize=inches, dpi=min(RESOLUTION, MAX_PIXELS / max(inches)), layout="constrained")
    axes = figure.add_subplot()
    for node in range(tree.size):
        for child in tree.children(node):
            (x0, y0), (x1, y1) = places[node], places[child]
            axes.plot([x0, x1], [y0, y1], color="0.6", linewidth=1, zorder=1)
    for node, (x, y) in enumerate(places):
        shape = "circle" if tree.texts[node] is None else "round"
        colour = OPERATOR_COLOUR if tree.texts[node] is None else LEAF_COLOUR
        box = {"boxstyle": f"{shape},pad=0.3", "facecolor": colour, "edgecolor": "0.35", "linewidth": 0.8}
        axes.text(x, y, label(tree, node), ha="center", va="center", fontsize=9, bbox=box, zorder=2, parse_math=False)
    axes.set_xlim(-0.8, width - 0.2)
    axes.set_ylim(tree.depth + 0.6, -0.6)
    axes.axis("off")
    axes.set_title(title or _shortened(str(tree)), fontsize=9, wrap=True, parse_math=False)
    return figure


def _shortened(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
