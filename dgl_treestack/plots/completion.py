"""Top-1 and top-5 of equation completion against depth."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.plots import draw_seeds
from dgl_treestack.results.metrics import top
from dgl_treestack.results.run_result import RunResult

PANELS = (("class", 1, "top-1"), ("collapse", 5, "top-5"))  # kind of rank, largest rank that counts, title
SETS = {"blanks": "", "deep blanks": ", deep blanks"}  # extra -> suffix of the title


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw a row of panels per set of blanks, a line per model: mean over seeds, a band of one sample standard deviation.

    Top-1 is whether the best candidate is right; top-5 ranks value classes, each by its best candidate.
    """
    sets = [name for name in SETS if all(name in run.sets for runs in groups.values() for run in runs)]
    figure = Figure(figsize=(9.0, 3.6 * len(sets)), layout="constrained")
    panels = figure.subplots(len(sets), len(PANELS), sharey="row", squeeze=False)
    for row, name in zip(panels, sets, strict=True):
        tables_of_runs = {label: [records.by(run.of(name)) for run in runs] for label, runs in groups.items()}
        draw_seeds(
            row,
            tables_of_runs,
            lambda tables: {n: [top(of, kind, limit) for kind, limit, _ in PANELS] for n, of in tables.items()},
        )
        depths = sorted({depth for axes in row for drawn in axes.get_lines() for depth in drawn.get_xdata()})
        for axes, (_, _, title) in zip(row, PANELS, strict=True):
            axes.set(xticks=depths, title=title + SETS[name], xlabel="depth of the equation")
        row[0].set(ylabel="blanks filled (%)", ylim=(0, None))
    panels[0][-1].legend(fontsize=8)
    return figure
