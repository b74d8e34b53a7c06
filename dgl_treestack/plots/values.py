"""What the slots of a model have learned: read-outs of values against values, and their errors by height."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dgl_treestack.plots._style import draw_legend, draw_seeds
from dgl_treestack.results import metrics
from dgl_treestack.results.run_result import RunResult

LOWEST, HIGHEST = 1, 9  # heights of the panel with points


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw the first run's read-outs of real parts at point 0 against the values, then error and correlation by height.

    Error: the median over subtrees, points, real and imaginary parts. Correlation: of the real parts, the mean over points.
    A line per model: mean over seeds, a band of one sample standard deviation.
    The runs have the set `values`, of `extras.values`.
    """
    figure = Figure(figsize=(11.5, 4.2), layout="constrained")
    points, errors, correlations = figure.subplots(1, 3)
    label, runs = next(iter(groups.items()))
    rows = runs[0].of("values").rows(named=True)
    shown = [row for row in rows if LOWEST <= row["depth"] <= HIGHEST and row["values"][0] is not None]
    values, readouts = ([row[key][0][0] for row in shown] for key in ("values", "readouts"))
    drawn = points.scatter(values, readouts, s=3, c=[row["depth"] for row in shown], cmap="viridis", linewidths=0)
    figure.colorbar(drawn, ax=points, label="height of the subtree")
    points.set_title(f"{label}, slot 1", fontsize=9)
    points.set(xlabel="asinh of the real part", ylabel="read-out")
    draw_seeds((errors, correlations), groups, lambda run: metrics.readouts_by_height(run.of("values")))
    for axes, title in ((errors, "median error"), (correlations, "correlation")):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="height of the subtree", ylabel=title)
    errors.set_ylim(bottom=0)
    correlations.set_ylim(top=1.005)
    draw_legend(figure, [errors])
    return figure
