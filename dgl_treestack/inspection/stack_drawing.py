"""A tree with what a model did at its nodes: actions as a bar, the stack as a heat map under it."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from dgl_treestack.inspection.drawing import draw, place
from dgl_treestack.inspection.outline import verdict
from dgl_treestack.inspection.traces import Trace

COLOURS = {"push": "#0072B2", "pop": "#E69F00", "noop": "#9a9a9a"}
ROOM = 1.3  # inches from level to level
# Of a node's column and level: where its bar and its heat map begin, their heights, and their width.
BAR, MAP, WIDTH = (0.2, 0.07), (0.29, 0.34), 0.84


def draw_trace(name: str, trace: Trace) -> Figure:
    """The tree, a row of the stack per row of a heat map (top row on top), from blue for negative to red for positive numbers.

    Raises DataError for a tree of more than 500 nodes.
    """
    figure = draw(trace.tree, f"{trace.tree}\n{name}: {verdict(trace)}", room=ROOM)
    (axes,) = figure.axes
    limits = axes.get_xlim(), axes.get_ylim()
    most = 0.0 if trace.stack is None else float(np.abs(trace.stack).max(initial=1e-9))
    for node, (x, y) in enumerate(place(trace.tree)):
        if trace.tree.children(node) and node not in _silent(trace):
            _draw_actions(axes, {action: float(values[node]) for action, values in trace.actions.items()}, x, y)
            if trace.stack is not None:
                extent = (x - WIDTH / 2, x + WIDTH / 2, y + MAP[0] + MAP[1], y + MAP[0])
                _draw_stack(axes, trace.stack[node], most, extent)
    axes.set_xlim(*limits[0])
    axes.set_ylim(*limits[1])
    keys = [Patch(color=COLOURS[action], label=action) for action in trace.actions]
    axes.legend(handles=keys, loc="upper right", fontsize=8, frameon=False) if keys else None
    return figure


def _draw_stack(axes: Axes, rows: np.ndarray, most: float, extent: tuple[float, float, float, float]) -> None:
    """Rows as coloured stripes, from -most to most, in a frame. extent: left, right, bottom, top."""
    left, right, bottom, top = extent
    axes.imshow(rows, extent=extent, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest", zorder=3)
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, linewidth=0.5, zorder=4))


def _silent(trace: Trace) -> set[int]:
    """The root of an equation, at which nothing is computed."""
    return {0} if trace.tree.names[0] == trace.tree.signature.root else set()


def _draw_actions(axes: Axes, gates: dict[str, float], x: float, y: float) -> None:
    """Shares of the actions, side by side in one bar."""
    start, total = x - WIDTH / 2, sum(gates.values()) or 1.0
    for action, gate in gates.items():
        width = WIDTH * gate / total
        axes.add_patch(Rectangle((start, y + BAR[0]), width, BAR[1], color=COLOURS[action], linewidth=0, zorder=3))
        start += width
