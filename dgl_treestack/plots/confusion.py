"""Which classes a model takes for which: a confusion matrix per configuration."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from dgl_treestack.data import records
from dgl_treestack.errors import DataError
from dgl_treestack.results.metrics import confusion
from dgl_treestack.results.run_result import RunResult, by_config

MAX_NUMBERS = 12  # classes, beyond which no numbers are printed into the matrix


def draw(runs: Sequence[RunResult]) -> Figure:
    """Draw a matrix per configuration: rows are labels, columns answers, in per cent of a row, over all seeds.

    Raises DataError for runs whose records have no classes.
    """
    groups = by_config(runs)
    figure = Figure(figsize=(0.6 + 4.2 * len(groups), 4.2), layout="constrained")
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
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=100)
        if len(classes) <= MAX_NUMBERS:
            for (label, answer), share in np.ndenumerate(matrix):
                colour = "white" if share > 50 else "black"
                axes.text(answer, label, f"{share:.0f}", ha="center", va="center", fontsize=7, color=colour)
        axes.set_xticks(range(len(classes)), classes)
        axes.set_yticks(range(len(classes)), classes)
        axes.set(xlabel="answer", ylabel="label", title=name)
        axes.grid(visible=False)
    return figure
