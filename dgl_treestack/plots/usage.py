"""Rows of the stack in use against depth (Arabshahi 2020, Table 5)."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.plots import draw_seeds
from dgl_treestack.plots.depth import MIN_EQUATIONS
from dgl_treestack.results.metrics import mean
from dgl_treestack.results.run_result import RunResult

PANELS = (("usage", "mean over operators"), ("top", "at the two sides"))  # key of a record, title


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw a line per model: mean over seeds, a band of one sample standard deviation; depths with too few equations left out.

    The runs have the set `usage`, of `extras.usage`.
    """
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    tables_of_runs: dict[str, list[dict[int, Table]]] = {}
    for label, runs in groups.items():
        by_depth = [records.by(run.of("usage")).items() for run in runs]
        tables_of_runs[label] = [{n: table for n, table in of_run if len(table) >= MIN_EQUATIONS} for of_run in by_depth]
    draw_seeds(panels, tables_of_runs, lambda tables: {n: [mean(of, key) for key, _ in PANELS] for n, of in tables.items()})
    for axes, (_, title) in zip(panels, PANELS, strict=True):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(title=title, xlabel="depth of the equation")
    panels[0].set(ylabel="stack rows in use", ylim=(0, None))
    panels[0].legend(fontsize=8)
    return figure
