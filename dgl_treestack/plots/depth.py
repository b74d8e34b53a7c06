"""Accuracy against depth, inside and beyond the training depths: the main figure of the papers.

If the configurations group by another measure, size or number of operators, that is the axis.
"""

import logging
import re
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.data.records import Table, accuracy
from dgl_treestack.errors import DataError
from dgl_treestack.expression.operators import MATH
from dgl_treestack.plots._style import MAJORITY, by_name, draw_legend, draw_seeds
from dgl_treestack.results.run_result import RunResult

MIN_EQUATIONS = 30  # per drawn depth; with fewer the standard error is above 9 points
MAX_TICKS = 25
DEEP = re.compile(r"deep( \d+-\d+)?")
AXES = {"depth": "depth of the equation", "size": "nodes of the tree", "operators": "operators of the tree"}
logger = logging.getLogger(__name__)


def draw(runs: Sequence[RunResult]) -> Figure:
    """Draw a line per configuration: mean over seeds, a band of one sample standard deviation; training depths are shaded.

    Raises DataError when there are no runs, or no depth with enough equations.
    """
    groups = by_name(runs)
    measures = sorted({run.config.data.group_by for run in runs})
    if len(measures) > 1:
        raise DataError(f"The runs group by {' and '.join(measures)} (data.group_by). Draw them one at a time.")
    sizes = [{value: len(group) for value, group in records.by(run.of("test"), measures[0]).items()} for run in runs]
    if few := sorted({value for of_run in sizes for value, count in of_run.items() if count < MIN_EQUATIONS}):
        logger.warning("not drawn, with fewer than %d trees: %s %s", MIN_EQUATIONS, measures[0], ", ".join(map(str, few)))
    return draw_groups(groups)


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw the figure for runs that are grouped already: label -> runs that differ in their seed.

    A second panel has the test set `deep`, or those of its depths that the experiment reads, when all runs have records of it.
    """
    all_runs = [run for group in groups.values() for run in group]
    names_of_deep = [name for name in all_runs[0].sets if DEEP.fullmatch(name) and len(all_runs[0].of(name))]
    has_deep = bool(names_of_deep) and all(names_of_deep[0] in run.sets for run in all_runs)
    figure = Figure(figsize=(11.0 if has_deep else 7.2, 4.6), layout="constrained")
    panels = figure.subplots(1, 1 + has_deep, sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, ("test", *names_of_deep), strict=False):
        draw_panel(axes, groups, name)
    panels[0].set_ylabel("accuracy (%)")
    draw_legend(figure, panels)
    if has_deep:
        panels[1].set_title("another test set: deep")
    return figure


def draw_panel(axes: Axes, groups: Mapping[str, Sequence[RunResult]], name: str) -> None:
    """Draw a line per label and the majority class of a test set, on a shade over the training depths."""
    first_run = next(iter(groups.values()))[0]
    group_by, trained = first_run.config.data.group_by, first_run.trained
    tables_of_run = {(run.config.name, run.seed): large_depths(run, name) for group in groups.values() for run in group}
    draw_seeds(
        [axes], groups, lambda run: {n: accuracy(table) for n, table in tables_of_run[run.config.name, run.seed].items()}
    )
    # If test sets differ, the majority of a depth is that of the first run with this depth.
    first_tables = {depth: table for tables in reversed(tables_of_run.values()) for depth, table in tables.items()}
    depths = sorted(first_tables)
    axes.plot(depths, [records.majority(first_tables[depth]) for depth in depths], **MAJORITY)
    axes.set_xticks(depths if len(depths) <= MAX_TICKS else depths[:: -(-len(depths) // MAX_TICKS)])
    axes.set_xlim(depths[0] - 0.5, depths[-1] + 0.5)
    left, right = axes.get_xlim()
    start, stop = max(left, trained.start - 0.5), min(right, trained.stop - 0.5)
    if start < stop and (start, stop) != (left, right):
        axes.axvspan(start, stop, color="0.92", zorder=0)
        title = "training depths" if group_by == "depth" else "training set"
        axes.text(
            stop - 0.1, 1.0, title, ha="right", va="bottom", fontsize=8, color="0.35", transform=axes.get_xaxis_transform()
        )
    is_of_equations = first_run.config.data.language == MATH.name
    axes.set_xlabel(AXES[group_by] if is_of_equations else AXES[group_by].replace("equation", "tree"))


def large_depths(run: RunResult, name_of_set: str = "test") -> dict[int, Table]:
    """Return the answers of every depth, or other measure, with MIN_EQUATIONS or more. Raises DataError when there is none."""
    group_by = run.config.data.group_by
    groups = {depth: group for depth, group in records.by(run.of(name_of_set), group_by).items() if len(group) >= MIN_EQUATIONS}
    if not groups:
        message = f"No value of {group_by!r} in its test set has the {MIN_EQUATIONS} trees that a point needs. Evaluate more."
        raise DataError(message, run.folder)
    return groups
