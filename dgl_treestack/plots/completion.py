"""Top-1 and top-5 of equation completion against depth."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from dgl_treestack import records
from dgl_treestack.metrics import within
from dgl_treestack.plots import _style
from dgl_treestack.results import RunResult

PANELS = (("class", 1, "top-1"), ("collapse", 5, "top-5"))  # rank, at most, title


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """A line per model in either panel: mean over seeds, a band of one sample standard deviation.

    Top-1 is whether the best candidate is right; top-5 counts value classes, of which the best candidate stands for each.
    """
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (kind, most, title) in zip(panels, PANELS, strict=True):
        for i, (label, runs) in enumerate(groups.items()):
            _style.draw_seeds(axes, [_shares(run, kind, most) for run in runs], label, i)
        axes.set_xticks(sorted({row["depth"] for runs in groups.values() for run in runs for row in run.blanks}))
        axes.set_title(title)
        axes.set_xlabel("depth of the equation")
    panels[0].set_ylabel("blanks filled (%)")
    panels[0].set_ylim(bottom=0)
    panels[-1].legend()
    return figure


def _shares(run: RunResult, kind: str, most: int) -> dict[int, float]:
    return {depth: within(rows, kind, most) for depth, rows in records.by_depth(run.blanks).items()}
