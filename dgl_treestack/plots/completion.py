"""Top-1 and top-5 of equation completion against depth."""

from collections.abc import Mapping, Sequence
from functools import partial

from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.plots._style import MAJORITY, draw_legend, draw_seeds
from dgl_treestack.results.metrics import mean, top
from dgl_treestack.results.run_result import RunResult

# kind of rank, largest rank that counts, title
PANELS = (("class", 1, "first answer right (top-1)"), ("collapse", 5, "among the first five values (top-5)"))
SETS = {"blanks": "", "deep blanks": ", deep blanks"}  # extra -> suffix of the title
# Column of the records -> title and line style of what is right without a model, which is known for the first answer.
WITHOUT_MODEL = {"chance": ("chance", (0, (1, 1))), "constant": ("always the most frequent value", (0, (4, 2)))}


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw a row of panels per set of blanks, a line per model: mean over seeds, a band of one sample standard deviation.

    Top-1 is whether the best candidate is right, beside what is right without a model: a candidate at random, and always the
    value that fills most blanks. Top-5 ranks value classes, each by its best candidate.
    """
    sets = [name for name in SETS if all(name in run.sets for runs in groups.values() for run in runs)]
    figure = Figure(figsize=(9.0, 0.8 + 3.6 * len(sets)), layout="constrained")
    panels = figure.subplots(len(sets), len(PANELS), sharey="row", squeeze=False)
    first_run = next(iter(groups.values()))[0]  # what is reached without a model is the same for all
    for row, name in zip(panels, sets, strict=True):
        draw_seeds(row, groups, partial(_shares, name=name))
        blanks = first_run.of(name)
        by_depth = records.by(blanks)
        for axes, (_, _, title) in zip(row, PANELS, strict=True):
            axes.set(xticks=sorted(by_depth), title=f"{title}{SETS[name]}", xlabel="depth of the equation")
        for column, (title, linestyle) in WITHOUT_MODEL.items():
            shares = [mean(table, column, 100) for table in by_depth.values()]
            row[0].plot(list(by_depth), shares, **{**MAJORITY, "linestyle": linestyle, "label": title})
        shares_without_model = ", ".join(
            f"{title} {mean(blanks, column, 100):.1f} %" for column, (title, _) in WITHOUT_MODEL.items()
        )
        row[0].set(
            title=f"{row[0].get_title()}\n{shares_without_model}", ylabel=f"share of {len(blanks):,} blanks (%)", ylim=(0, None)
        )
    draw_legend(figure, panels[0])
    return figure


def _shares(run: RunResult, name: str) -> dict[int, list[float]]:
    """Return the share of the blanks of a set that are filled, by depth and panel."""
    return {n: [top(table, kind, limit) for kind, limit, _ in PANELS] for n, table in records.by(run.of(name)).items()}
