"""A tree with a model's actions as a bar at every node, and its stack as a heat map below."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from dgl_treestack.inspection.drawing import draw, layout_tree
from dgl_treestack.inspection.outline import score_text
from dgl_treestack.inspection.traces import Trace

COLOURS = {"push": "#0072B2", "pop": "#E69F00", "noop": "#9a9a9a"}
SPACING = 1.3  # inches from level to level
# Offsets below a node and heights of its bar and its heat map, in levels; the width of both, in columns.
BAR, MAP, WIDTH = (0.2, 0.07), (0.29, 0.34), 0.84
ANSWER = 0.31  # distance of an answer above its node, in levels


def draw_trace(name: str, trace: Trace) -> Figure:
    """Draw a model's actions and stacks in an equation.

    Below every operator, a bar shows the shares of push, pop and no-op, and a heat map the rows of the stack, the top row on
    top, from blue for negative to red for positive numbers. The root of an equation has neither, since it has no state. Above a
    node is the model's answer, in red if it is wrong, where the task has answers at nodes.

    name: of the model, for the title. Raises DataError for a tree of more than 500 nodes.
    """
    tree = trace.tree
    figure = draw(tree, f"{tree}\n{name}: {score_text(trace)}", spacing=SPACING)
    (axes,) = figure.axes
    limits = axes.get_xlim(), axes.get_ylim()
    largest = 0.0 if trace.stack is None else float(np.abs(trace.stack).max(initial=1e-9))
    colours: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    for node, (x, y) in enumerate(layout_tree(tree)):
        if "node" in trace.answers.get(node, {}):
            colour = "#b22222" if trace.answers[node]["correct"] is False else "#2b6b2b"
            answer = trace.answers[node]["predicted"]
            axes.text(x, y - ANSWER, answer, ha="center", va="center", fontsize=7, color=colour, fontweight="bold")
        if not tree.children(node) or (node == 0 and tree.names[0] == tree.signature.root):
            continue
        left, right = x - WIDTH / 2, x + WIDTH / 2
        gates = {action: float(values[node]) for action, values in trace.actions.items()}
        start, total = left, sum(gates.values()) or 1.0
        for action, gate in gates.items():
            width = WIDTH * gate / total
            axes.add_patch(Rectangle((start, y + BAR[0]), width, BAR[1], color=COLOURS[action], linewidth=0, zorder=3))
            start += width
        if trace.stack is not None:
            top, bottom = y + MAP[0], y + MAP[0] + MAP[1]
            extent = (left, right, bottom, top)
            axes.imshow(trace.stack[node], extent=extent, aspect="auto", interpolation="nearest", zorder=3, **colours)
            axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, linewidth=0.5, zorder=4))
    axes.set_xlim(*limits[0])
    axes.set_ylim(*limits[1])
    if trace.actions:
        patches = [Patch(color=COLOURS[action], label=action) for action in trace.actions]
        axes.legend(handles=patches, loc="upper right", fontsize=8, frameon=False)
    return figure
