"""t-SNE of models' representations of expressions, coloured by their value (Arabshahi 2020, Figures 5 and 7)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from dgl_treestack.errors import DataError
from dgl_treestack.plots._style import line
from dgl_treestack.results import metrics
from dgl_treestack.results.run_result import RunResult

SHOWN = 5  # number of classes with a colour, the largest ones; all others are grey
PERPLEXITY, SEED, COLUMNS = 30.0, 0, 3


def draw_groups(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Draw a panel per model, of the first of its runs, all with the same t-SNE settings.

    A class is named after its simplest expression: fewest minus signs, then shortest.
    The runs have the set `expressions`, of `extras.representations`.
    Raises DataError with fewer than two value classes of five expressions.
    """
    from sklearn.manifold import TSNE

    rows = math.ceil(len(groups) / COLUMNS)
    columns = min(COLUMNS, len(groups))
    figure = Figure(figsize=(3.3 * columns, 3.2 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, (label, runs) in zip(panels, groups.items(), strict=False):
        expressions = metrics.in_large_classes(runs[0].of("expressions"))
        if expressions["class"].n_unique() < 2:
            raise DataError("There are no two value classes of five expressions to show.", runs[0].folder)
        vectors, perplexity = np.array(expressions["h"].to_list()), min(PERPLEXITY, (len(expressions) - 1) / 3)
        embedding = TSNE(init="pca", learning_rate="auto", perplexity=perplexity, random_state=SEED)  # PCA: deterministic
        points, classes = embedding.fit_transform(vectors), np.array(expressions["class"].to_list())
        largest = [name for name, _ in Counter(classes.tolist()).most_common(SHOWN)]
        grey = points[~np.isin(classes, largest)]
        axes.scatter(grey[:, 0], grey[:, 1], s=6, color="0.8", label="other values", linewidths=0)
        for i, name in enumerate(largest):
            texts = expressions.filter(pl.col("class") == name)["text"]
            simplest = min(texts, key=lambda text: (text.count("-"), len(text), text))
            style, (x, y) = line(i), points[classes == name].T
            axes.scatter(x, y, s=14, color=style["color"], marker=style["marker"], label=f"value of {simplest}")
        axes.set(xticks=[], yticks=[])
        clusters = metrics.clusters(expressions)
        agreement = f"neighbour of equal value {clusters['agreement']:.0f} %, chance {clusters['chance']:.0f} %"
        axes.set_title(f"{label}\n{agreement}\nsilhouette {clusters['silhouette'] / 100:.2f}", fontsize=9)
    for axes in panels[len(groups) :]:
        axes.axis("off")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=SHOWN + 1, fontsize=8)
    return figure
