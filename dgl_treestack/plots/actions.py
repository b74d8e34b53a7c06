"""Actions and tops of the stacks of a Stack RNN in a sequence, token by token (Joulin & Mikolov 2015, Table 3 and Figure 3)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

# The colours of the paper's Figure 3, of different lightness.
_COLOURS = {"push": "#1B7837", "pop": "#FDB9A5", "noop": "0.8"}
_NAMES = {"push": "push", "pop": "pop", "noop": "no-op"}


def draw_data(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a row of boxes per stack, a column per token: the likeliest action, and below it the value on top of the stack.

    rows: of `algorithmic.training.trace`, one per token, with `scored`: whether it had to be predicted, which is in bold.
    """
    stacks = [stack["stack"] for stack in rows[0]["stacks"]]
    figure = Figure(figsize=(0.5 * len(rows) + 1.4, 0.42 * len(stacks) + 1.4), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(False)
    for x, row in enumerate(rows):
        for y, stack in enumerate(row["stacks"]):
            probabilities = {action: stack[action] for action in _COLOURS if action in stack}
            likeliest = max(probabilities, key=lambda action: probabilities[action])
            colour = _COLOURS[likeliest]
            axes.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, facecolor=colour, edgecolor="0.5", linewidth=0.5))
            ink = "white" if likeliest == "push" else "black"
            axes.text(x, y - 0.12, _NAMES[likeliest], ha="center", va="center", fontsize=7.5, color=ink)
            axes.text(x, y + 0.22, f"{stack['top']:.2f}", ha="center", va="center", fontsize=6.5, color=ink)
    axes.set(xlim=(-0.5, len(rows) - 0.5), ylim=(len(stacks) - 0.5, -0.5))
    axes.set_xticks(np.arange(len(rows)), [row["symbol"] for row in rows], parse_math=False)
    for label, row in zip(axes.get_xticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row["scored"] else "normal")
    expected = axes.secondary_xaxis("top")
    expected.set_xticks(np.arange(len(rows)), [row["next"] for row in rows], parse_math=False)
    expected.set_xlabel("what the net expects next")
    axes.set_yticks(np.arange(len(stacks)), [f"stack {number + 1}" for number in stacks])
    for each in (axes, expected):
        each.tick_params(length=0)
    axes.set_xlabel("what is read; bold: it has to be predicted. In a box: the likeliest action, and the top value after it")
    return figure
