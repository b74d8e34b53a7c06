"""What a Stack RNN does in a sequence: actions and tops of its stacks, token by token (Joulin & Mikolov 2015, Table 3)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

_GREY = {"push": "0.25", "pop": "0.95", "noop": "0.7"}
_SIGNS = {"push": "push", "pop": "pop", "noop": "keep"}


def draw_data(rows: Sequence[dict[str, Any]]) -> Figure:
    """rows: of `algorithmic.testing.trace`. A row of boxes per stack; the likeliest action, and below it the value on top."""
    stacks = [one["stack"] for one in rows[0]["stacks"]]
    figure = Figure(figsize=(0.62 * len(rows) + 1.6, 0.62 * len(stacks) + 1.4), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(False)
    for x, row in enumerate(rows):
        for y, one in enumerate(row["stacks"]):
            shares = {name: one[name] for name in _GREY if name in one}
            name = max(shares, key=lambda action: shares[action])
            colour = _GREY[name]
            axes.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, facecolor=colour, edgecolor="0.5", linewidth=0.5))
            ink = "white" if name == "push" else "black"
            axes.text(x, y - 0.12, _SIGNS[name], ha="center", va="center", fontsize=7.5, color=ink)
            axes.text(x, y + 0.22, f"{one['top']:.2f}", ha="center", va="center", fontsize=6.5, color=ink)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylim(len(stacks) - 0.5, -0.5)
    axes.set_xticks(np.arange(len(rows)), [f"{row['symbol']}\n{row['next']}" for row in rows], parse_math=False)
    axes.set_yticks(np.arange(len(stacks)), [f"stack {number}" for number in stacks])
    axes.tick_params(length=0)
    axes.set_xlabel("what is read, and below it what the net expects next")
    return figure
