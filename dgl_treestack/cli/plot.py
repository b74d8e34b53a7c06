"""`treestack plot`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack import plots
from dgl_treestack.cli import On


def plot(
    figure: Annotated[
        Positional[str],
        arg(help="Which figure: depth, summary, confusion, epochs, learning_curve, equations, or one of plots/."),
    ],
    runs: Annotated[
        Positional[tuple[Path, ...]],
        arg(help="Run folders, or files records.parquet of `reproduce`; for `equations`, folders of data."),
    ],
    *,
    on: On = "",
    output: Annotated[Path, arg(help="Where to write the figure, as .svg and as .png.")],
) -> None:
    """Draw a figure from the records of runs."""
    for path in plots.plot(figure, runs, output, on):
        print(path)
