"""Equations by depth: the histogram of the papers beside those of generated data sets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from dgl_treestack.generate.presets.paper import COUNTS
from dgl_treestack.plots import COLOURS

PAPERS = "Mali et al. 2021, Table 1"
_HATCHES = ("//", "", "\\\\", "..")


def draw(manifests: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw bars per depth for the papers' set and for each manifest of `generate.production`, all its files together."""
    histograms = [(PAPERS, dict(COUNTS)), *((manifest["preset"], _count_by_depth(manifest)) for manifest in manifests)]
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / len(histograms)
    for i, (name, counts) in enumerate(histograms):
        centres = [depth + (i - (len(histograms) - 1) / 2) * width for depth in counts]
        style: dict[str, Any] = {
            "color": COLOURS[i % len(COLOURS)],
            "hatch": _HATCHES[i % len(_HATCHES)],
            "edgecolor": "white",
        }
        axes.bar(centres, list(counts.values()), width, linewidth=0, label=f"{name} ({sum(counts.values()):,})", **style)
    axes.set_xticks(sorted({depth for _, counts in histograms for depth in counts}))
    axes.set(xlabel="depth of the equation", ylabel="equations", axisbelow=True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(histograms))
    return figure


def _count_by_depth(manifest: Mapping[str, Any]) -> dict[int, int]:
    """Return depth -> labelled equations over all files; unlabelled rows are completion candidates, not equations."""
    counts: Counter[int] = Counter()
    for file in manifest["files"].values():
        for depth, count_by_label in file["by depth and label"].items():
            counts[int(depth)] += sum(count for label, count in count_by_label.items() if label in "01")
    return {depth: count for depth, count in sorted(counts.items()) if count}
