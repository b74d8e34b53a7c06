"""Top-1 and top-5 of equation completion against depth."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.plots import _style
from dgl_treestack.results.metrics import within
from dgl_treestack.results.run_result import RunResult

PANELS = (("class", 1, "top-1"), ("collapse", 5, "top-5"))  # rank, at most, title
SETS = {"blanks": "", "deep blanks": ", deep blanks"}  # extra -> what is added to the title


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """A row of panels per set of blanks, a line per model: mean over seeds, a band of one sample standard deviation.

    Top-1 is whether the best candidate is right; top-5 counts value classes, of which the best candidate stands for each.
    """
    sets = [name for name in SETS if all(name in run.more for runs in groups.values() for run in runs)]
    figure = Figure(figsize=(9.0, 3.6 * len(sets)), layout="constrained")
    panels = figure.subplots(len(sets), len(PANELS), sharey="row", squeeze=False)
    for row, name in zip(panels, sets, strict=True):
        for axes, (kind, most, title) in zip(row, PANELS, strict=True):
            for i, (label, runs) in enumerate(groups.items()):
                _style.draw_seeds(axes, [_shares(run.more[name], kind, most) for run in runs], label, i)
            axes.set_xticks(sorted({blank["depth"] for runs in groups.values() for run in runs for blank in run.more[name]}))
            axes.set_title(title + SETS[name])
            axes.set_xlabel("depth of the equation")
        row[0].set_ylabel("blanks filled (%)")
        row[0].set_ylim(bottom=0)
    panels[0][-1].legend(fontsize=8)
    return figure


def _shares(blanks: Sequence[records.Record], kind: str, most: int) -> dict[int, float]:
    return {depth: within(rows, kind, most) for depth, rows in records.by_depth(blanks).items()}
