"""Rows of the stack in use against depth (Arabshahi 2020, Table 5)."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dgl_treestack.data import records
from dgl_treestack.plots._style import draw_legend, draw_seeds
from dgl_treestack.plots.depth import MIN_EQUATIONS
from dgl_treestack.results.metrics import mean
from dgl_treestack.results.run_result import RunResult

PANELS = (("usage", "mean over operators"), ("top", "at the two sides"))  # key of a record, title
PAPER = "hollow: the paper's Table 5 (nodes not named)"


def draw_groups(groups: Mapping[str, Sequence[RunResult]], paper: Mapping[str, Mapping[int, float]] | None = None) -> Figure:
    """Draw a line per model: mean over seeds, a band of one sample standard deviation; depths with too few equations left out.

    The runs have the set `usage`, of `extras.usage`. paper: label -> depth -> rows that the paper prints, drawn over ours.
    """
    figure = Figure(figsize=(9.0, 4.4), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    style_of = draw_seeds(
        panels,
        groups,
        lambda run: {
            depth: [mean(table, key) for key, _ in PANELS]
            for depth, table in records.by(run.of("usage")).items()
            if len(table) >= MIN_EQUATIONS
        },
    )
    for axes, (_, title) in zip(panels, PANELS, strict=True):
        for label, rows in (paper or {}).items():
            style = {**style_of[label], "markerfacecolor": "white", "linestyle": ":", "linewidth": 1, "markersize": 4}
            axes.plot(list(rows), list(rows.values()), **style, label=PAPER)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(title=title, xlabel="depth of the equation")
    panels[0].set(ylabel="stack rows in use", ylim=(0, None))
    draw_legend(figure, panels)
    return figure
