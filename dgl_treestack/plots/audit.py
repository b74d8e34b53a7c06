"""The report of an audit: verdicts and labels by depth, and the accuracy of baselines that can do no mathematics."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dgl_treestack.plots._style import MAJORITY, draw_legend, line

# verdict -> fill of its part of a bar; "not judged" is for audits without verdicts
_FILLS: dict[str, dict[str, Any]] = {
    "holds": {"color": "#0072B2"},
    "refuted": {"color": "#E69F00"},
    "conditional": {"facecolor": "white", "edgecolor": "0.25", "hatch": "////"},
    "undefined": {"facecolor": "white", "edgecolor": "0.25", "hatch": "...."},
    "undecided": {"facecolor": "white", "edgecolor": "0.25", "hatch": "xxxx"},
    "not judged": {"color": "0.65"},
}


def draw_data(report: Mapping[str, Any]) -> Figure:
    """Draw a row of panels per set of a report of `audit.report.audit`.

    Left: equations per depth by verdict, correct ones upwards, incorrect ones downwards. Right, if leakage was measured:
    accuracy in per cent per depth group and baseline, with one standard error, and the share of the more frequent label.
    """
    sets = report["sets"]
    leakage = {name: [row for row in audited.get("leakage", ()) if "skipped" not in row] for name, audited in sets.items()}
    columns = 2 if any(leakage.values()) else 1
    figure = Figure(figsize=(5.2 * columns, 0.6 + 3.3 * len(sets)), layout="constrained")
    grid = figure.subplots(len(sets), columns, squeeze=False, width_ratios=[1, 1.15][:columns])
    for axes, (name, audited) in zip(grid, sets.items(), strict=True):
        axes[0].set_title(f"{name}: {audited['equations']:,} equations", loc="left")
        _draw_counts(axes[0], audited["verdicts"])
        if leakage[name]:
            axes[1].set_title("leakage, five-fold by pair, ± one standard error", loc="left")
            rows = leakage[name]
            names = list(rows[0]["baselines"])
            for i, baseline in enumerate(names):
                scores = [row["baselines"][baseline] for row in rows]
                axes[1].errorbar(
                    [x + 0.15 * (i - (len(names) - 1) / 2) for x in range(len(rows))],
                    [score["accuracy"] for score in scores],
                    yerr=[score["standard_error"] for score in scores],
                    **{**line(i), "linestyle": "none"}, markersize=5, capsize=2, linewidth=1, label=baseline,
                )  # fmt: skip
            for x, row in enumerate(rows):
                axes[1].plot([x - 0.45, x + 0.45], [row["majority"]] * 2, **MAJORITY)
            axes[1].set_xticks(range(len(rows)), [row["depths"] for row in rows])
            axes[1].set_xlim(-0.6, len(rows) - 0.4)
            axes[1].grid(axis="x", visible=False)
            axes[1].set(xlabel="depths", ylabel="right (%)")
        elif columns == 2:
            axes[1].set_axis_off()
    draw_legend(figure, list(grid.flatten()))
    return figure


def heights(rows: Sequence[Mapping[str, Any]]) -> dict[str, Counter[tuple[int, int]]]:
    """Return verdict -> (direction, depth) -> equations; direction -1 for those labelled incorrect, 1 for all others."""
    counts: dict[str, Counter[tuple[int, int]]] = {verdict: Counter() for verdict in _FILLS}
    for row in rows:
        bar = (-1 if row["label"] == 0 else 1, row["depth"])
        for verdict in _FILLS:
            counts[verdict][bar] += row.get(verdict, 0)
        counts["not judged"][bar] += row["equations"] - sum(row.get(verdict, 0) for verdict in _FILLS)
    return {verdict: by_bar for verdict, by_bar in counts.items() if by_bar.total()}


def _draw_counts(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw stacked bars by depth, away from zero in both directions."""
    base: Counter[tuple[int, int]] = Counter()
    for verdict, counts in heights(rows).items():
        bars = [bar for bar in sorted(counts) if counts[bar]]
        axes.bar(
            [depth for _, depth in bars],
            [direction * counts[direction, depth] for direction, depth in bars],
            bottom=[direction * base[direction, depth] for direction, depth in bars],
            width=0.8, linewidth=0.6, label=verdict, **_FILLS[verdict],
        )  # fmt: skip
        base.update(counts)
    axes.set_axisbelow(True)
    axes.axhline(0, color="black", linewidth=0.8)
    depths, labels = [row["depth"] for row in rows], {row["label"] for row in rows}
    axes.set_xlim(min(depths) - 0.7, max(depths) + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=20, min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    axes.grid(axis="x", visible=False)
    below = "incorrect" if 0 in labels else ""
    above = " and ".join(word for label, word in ((1, "correct"), (None, "unlabelled")) if label in labels)
    axes.set(xlabel="depth of the equation", ylabel="equations: " + "  |  ".join(filter(None, (below, above))))
