"""t-SNE of what models make of expressions, coloured by their value (Arabshahi 2020, Figures 5 and 7)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgl_treestack.data.records import Record
from dgl_treestack.errors import DataError
from dgl_treestack.plots import _style
from dgl_treestack.results import metrics
from dgl_treestack.results.run_result import RunResult

SHOWN = 5  # classes with a colour of their own, the largest; the others are grey
PERPLEXITY, SEED, COLUMNS = 30.0, 0, 3


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """A panel per model, of its first seed, with the settings of the t-SNE the same for all.

    Raises DataError with fewer than two value classes of five expressions.
    """
    rows = math.ceil(len(groups) / COLUMNS)
    width = min(COLUMNS, len(groups))
    figure = Figure(figsize=(3.3 * width, 3.2 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, width, squeeze=False).flatten()
    for axes, (label, runs) in zip(panels, groups.items(), strict=False):
        found = metrics.in_large_classes(runs[0].more["expressions"])
        if len({row["class"] for row in found}) < 2:
            raise DataError("There are no two value classes of five expressions to show.", runs[0].folder)
        _draw_panel(axes, found)
        clusters = metrics.clusters(found)
        axes.set_title(f"{label}\nneighbour {clusters.agreement:.0f} %, silhouette {clusters.silhouette:.2f}", fontsize=9)
    for axes in panels[len(groups) :]:
        axes.axis("off")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=SHOWN + 1, fontsize=8)
    return figure


def _draw_panel(axes: Axes, rows: Sequence[Record]) -> None:
    places = embed(rows)
    classes = np.array([row["class"] for row in rows])
    largest = [name for name, _ in Counter(classes.tolist()).most_common(SHOWN)]
    others = ~np.isin(classes, largest)
    axes.scatter(places[others, 0], places[others, 1], s=6, color="0.8", label="other values", linewidths=0)
    for i, name in enumerate(largest):
        style = _style.line(i)
        chosen = classes == name
        axes.scatter(
            places[chosen, 0], places[chosen, 1], s=14, color=style["color"], marker=style["marker"], label=value_of(rows, name)
        )
    axes.set_xticks([])
    axes.set_yticks([])


def embed(rows: Sequence[Record]) -> np.ndarray:
    """(rows, 2) places by t-SNE, perplexity 30 or a third of the rows where they are fewer, the same for the same rows."""
    from sklearn.manifold import TSNE

    vectors = np.array([row["h"] for row in rows])
    perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
    return TSNE(init="pca", learning_rate="auto", perplexity=perplexity, random_state=SEED).fit_transform(vectors)


def value_of(rows: Sequence[Record], name: str) -> str:
    """The shortest way of writing a class that is there, with as few signs as can be."""
    texts = (row["text"] for row in rows if row["class"] == name)
    return "value of " + min(texts, key=lambda text: (text.count("-"), len(text), text))
