"""Which classes a model takes for which: a confusion matrix per configuration."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.errors import DataError
from dgl_treestack.plots._style import by_name
from dgl_treestack.results.metrics import confusion
from dgl_treestack.results.run_result import RunResult

MAX_NUMBERS = 12  # classes, beyond which no numbers are printed into the matrix


def draw(runs: Sequence[RunResult]) -> Figure:
    """Draw a matrix per configuration: rows are labels, columns answers, in per cent of a row, over all seeds.

    Labels have their number of answers, titles the accuracy, and as chance that of the most frequent label.
    Raises DataError for runs whose records have no classes.
    """
    groups = by_name(runs)
    figure = Figure(figsize=(1.4 + 4.4 * len(groups), 4.2), layout="constrained")
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for axes, (name, group) in zip(panels, groups.items(), strict=True):
        classes = tuple(group[0].about["classes"])
        tables = [
            table for run in group if "predicted" in (table := run.of("test").filter(pl.col("label").is_not_null())).columns
        ]
        answers = records.joined(tables)
        if not len(answers) or not classes:
            raise DataError("Its test records have no labels and answers that are classes.", group[0].folder)
        matrix = confusion(answers, classes)
        drawn = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=100)
        if len(classes) <= MAX_NUMBERS:
            for (label, answer), share in np.ndenumerate(matrix):
                colour = "white" if share > 50 else "black"
                axes.text(answer, label, f"{share:.0f}", ha="center", va="center", fontsize=7, color=colour)
        axes.set_xticks(range(len(classes)), classes)
        counts = [answers["label"].to_list().count(label) for label in classes]
        axes.set_yticks(range(len(classes)), [f"{label} ({count:,})" for label, count in zip(classes, counts, strict=True)])
        measured = f"right {records.accuracy(answers):.1f} %, chance {records.majority(answers):.1f} %"
        axes.set(xlabel="answer", ylabel="label (number of answers)", title=f"{name}\n{measured}")
        axes.grid(visible=False)
    figure.colorbar(drawn, ax=panels, label="per cent of the answers to a label", shrink=0.8)
    return figure
