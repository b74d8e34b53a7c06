"""Equations by depth: the histogram of the papers beside those of generated data sets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from dgl_treestack.generate.presets.paper import COUNTS
from dgl_treestack.plots._style import COLOURS

PAPERS = "Mali et al. 2021, Table 1"
_HATCHES = ("//", "", "\\\\", "..")


def draw(manifests: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw bars per depth for the papers' set and for each manifest of `generate.production`, all its files together."""
    histograms: list[tuple[str, dict[int, int]]] = [(PAPERS, dict(COUNTS))]
    for manifest in manifests:
        counts: Counter[int] = Counter()
        for file in manifest["files"].values():
            for depth, count_by_label in file["by depth and label"].items():  # rows without a label are candidates
                counts[int(depth)] += sum(count for label, count in count_by_label.items() if label in "01")
        histograms.append((manifest["preset"], {depth: count for depth, count in sorted(counts.items()) if count}))
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / len(histograms)
    for i, (name, histogram) in enumerate(histograms):
        centres = [depth + (i - (len(histograms) - 1) / 2) * width for depth in histogram]
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "hatch": _HATCHES[i % len(_HATCHES)], "edgecolor": "white"}
        label = f"{name} ({sum(histogram.values()):,})"
        axes.bar(centres, list(histogram.values()), width, linewidth=0, label=label, **style)
    axes.set_xticks(sorted({depth for _, histogram in histograms for depth in histogram}))
    axes.set(xlabel="depth of the equation", ylabel="equations", axisbelow=True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(histograms))
    return figure
