"""What is in files of equations, and what shortcuts reach: a row of two panels per set. Drawn from the report of an audit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dgl_treestack.plots import _style

# verdict -> how its share of a bar is filled; "not judged" where an audit ran without verdicts
_FILLS: dict[str, dict[str, Any]] = {
    "holds": {"color": "#0072B2"},
    "refuted": {"color": "#E69F00"},
    "conditional": {"facecolor": "white", "edgecolor": "0.25", "hatch": "////"},
    "undefined": {"facecolor": "white", "edgecolor": "0.25", "hatch": "...."},
    "not judged": {"color": "0.65"},
}


def draw(report: Mapping[str, Any]) -> Figure:
    """A row per set of the report. Left: equations per depth by verdict, correct ones upwards, incorrect ones downwards. Right,
    where leakage was measured: per cent right per depth group and baseline, with one standard error, above the majority."""
    sets = report["sets"]
    columns = 2 if any(_measured(found) for found in sets.values()) else 1
    figure = Figure(figsize=(5.2 * columns, 3.5 * len(sets)), layout="constrained")
    grid = figure.subplots(len(sets), columns, squeeze=False, width_ratios=[1, 1.15][:columns])
    for axes, (name, found) in zip(grid, sets.items(), strict=True):
        axes[0].set_title(f"{name}: {found['equations']:,} equations", loc="left", fontsize=10)
        _draw_counts(axes[0], found["verdicts"])
        if _measured(found):
            axes[1].set_title("leakage, five-fold by pair", loc="left", fontsize=10)
            _draw_leakage(axes[1], _measured(found))
        elif columns == 2:
            axes[1].set_axis_off()
    return figure


def _measured(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in found.get("leakage", ()) if "skipped" not in row]


def heights(rows: Sequence[Mapping[str, Any]]) -> dict[str, Counter[tuple[int, int]]]:
    """Verdict -> (direction, depth) -> equations; direction -1 for those labelled incorrect, 1 for all others."""
    found: dict[str, Counter[tuple[int, int]]] = {verdict: Counter() for verdict in _FILLS}
    for row in rows:
        place = (-1 if row["label"] == 0 else 1, row["depth"])
        rest = row["equations"]
        for verdict in _FILLS:
            found[verdict][place] += row.get(verdict, 0)
            rest -= row.get(verdict, 0)
        found["not judged"][place] += rest
    return {verdict: counts for verdict, counts in found.items() if counts.total()}


def _draw_counts(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    start: Counter[tuple[int, int]] = Counter()
    for verdict, counts in heights(rows).items():
        places = [place for place in sorted(counts) if counts[place]]
        axes.bar(
            [depth for _, depth in places],
            [direction * counts[direction, depth] for direction, depth in places],
            bottom=[direction * start[direction, depth] for direction, depth in places],
            width=0.8, linewidth=0.6, label=verdict, **_FILLS[verdict],
        )  # fmt: skip
        start.update(counts)
    axes.set_axisbelow(True)
    axes.axhline(0, color="black", linewidth=0.8)
    depths = [row["depth"] for row in rows]
    axes.set_xlim(min(depths) - 0.7, max(depths) + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=20, min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("depth of the equation")
    axes.set_ylabel(_directions({row["label"] for row in rows}))
    axes.margins(y=0.12)
    axes.legend(fontsize=8, loc="upper left", ncols=2)
    _leave_room(axes)


def _directions(labels: set[int | None]) -> str:
    """What is above the line and what below."""
    above = " and ".join(word for value, word in ((1, "correct"), (None, "unlabelled")) if value in labels)
    words = [*(["incorrect"] if 0 in labels else []), *([above] if above else [])]
    return "equations: " + "  |  ".join(words)


def _leave_room(axes: Axes) -> None:
    """A fifth more above the bars, for the legend."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.2 * (high - low))


def _draw_leakage(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    names = list(rows[0]["baselines"])
    for i, name in enumerate(names):
        scores = [row["baselines"][name] for row in rows]
        places = [x + 0.15 * (i - (len(names) - 1) / 2) for x in range(len(rows))]
        style = _style.line(i)
        axes.errorbar(
            places,
            [score["accuracy"] for score in scores],
            yerr=[score["standard_error"] for score in scores],
            color=style["color"], marker=style["marker"], linestyle="none", markersize=5, capsize=2, linewidth=1, label=name,
        )  # fmt: skip
    for x, row in enumerate(rows):
        label = "commoner label" if x == 0 else None
        axes.plot([x - 0.45, x + 0.45], [row["majority"]] * 2, color="black", linewidth=1, linestyle=(0, (4, 2)), label=label)
    axes.set_xticks(range(len(rows)), [row["depths"] for row in rows])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("depths")
    axes.set_ylabel("right (%)")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
