"""Actions and tops of the stacks of a Stack RNN in a sequence, token by token (Joulin & Mikolov 2015, Table 3)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

_GREY = {"push": "0.25", "pop": "0.95", "noop": "0.7"}
_NAMES = {"push": "push", "pop": "pop", "noop": "keep"}


def draw_data(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a row of boxes per stack, a column per token: the likeliest action, and below it the value on top of the stack.

    rows: of `algorithmic.training.trace`, one per token.
    """
    stacks = [stack["stack"] for stack in rows[0]["stacks"]]
    figure = Figure(figsize=(0.62 * len(rows) + 1.6, 0.62 * len(stacks) + 1.4), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(False)
    for x, row in enumerate(rows):
        for y, stack in enumerate(row["stacks"]):
            probabilities = {action: stack[action] for action in _GREY if action in stack}
            likeliest = max(probabilities, key=lambda action: probabilities[action])
            grey = _GREY[likeliest]
            axes.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, facecolor=grey, edgecolor="0.5", linewidth=0.5))
            ink = "white" if likeliest == "push" else "black"
            axes.text(x, y - 0.12, _NAMES[likeliest], ha="center", va="center", fontsize=7.5, color=ink)
            axes.text(x, y + 0.22, f"{stack['top']:.2f}", ha="center", va="center", fontsize=6.5, color=ink)
    axes.set(xlim=(-0.5, len(rows) - 0.5), ylim=(len(stacks) - 0.5, -0.5))
    axes.set_xticks(np.arange(len(rows)), [f"{row['symbol']}\n{row['next']}" for row in rows], parse_math=False)
    axes.set_yticks(np.arange(len(stacks)), [f"stack {number}" for number in stacks])
    axes.tick_params(length=0)
    axes.set_xlabel("what is read, and below it what the net expects next")
    return figure
