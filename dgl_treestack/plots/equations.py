"""Equations by depth: the histogram of the papers beside that of a data set that was made."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from dgl_treestack.generate.presets.paper import COUNTS
from dgl_treestack.plots import _style

PAPERS = "Mali et al. 2021, Table 1"
_EDGES = ("//", "", "\\\\", "..")


def draw(manifests: Sequence[Mapping[str, Any]]) -> Figure:
    """Bars per depth for the papers' set and for each manifest of `generate.production`, all its files together."""
    histograms = [(PAPERS, dict(COUNTS)), *((manifest["preset"], _by_depth(manifest)) for manifest in manifests)]
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / len(histograms)
    for i, (name, counts) in enumerate(histograms):
        places = [depth + (i - (len(histograms) - 1) / 2) * width for depth in counts]
        style: dict[str, Any] = {
            "color": _style.COLOURS[i % len(_style.COLOURS)],
            "hatch": _EDGES[i % len(_EDGES)],
            "edgecolor": "white",
        }
        axes.bar(places, list(counts.values()), width, linewidth=0, label=f"{name} ({sum(counts.values()):,})", **style)
    axes.set_xticks(sorted({depth for _, counts in histograms for depth in counts}))
    axes.set_xlabel("depth of the equation")
    axes.set_ylabel("equations")
    axes.set_axisbelow(True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(histograms))
    return figure


def _by_depth(manifest: Mapping[str, Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    for file in manifest["files"].values():
        for depth, labels in file["by depth and label"].items():
            labelled = sum(count for label, count in labels.items() if label in "01")  # candidates are no equations
            found[int(depth)] = found.get(int(depth), 0) + labelled
    return {depth: count for depth, count in sorted(found.items()) if count}
