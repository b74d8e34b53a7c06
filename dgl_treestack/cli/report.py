"""`treestack report`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack.cli._arguments import Json, print_json


def report(
    runs: Annotated[
        Positional[tuple[Path, ...]], arg(help="Run folders; with --page the folder of tables that `reproduce` made.")
    ],
    *,
    metric: Annotated[
        str, arg(help="accuracy, precision, recall, f1, macro_f1, roots (records of nodes), r2, pairs or calibration.")
    ] = "accuracy",
    depths: Annotated[bool, arg(help="Add a column for every depth, or other measure, of the test set.")] = False,
    no_cuts: Annotated[bool, arg(help="Leave out equations with a value on a branch cut or at a branch point.")] = False,
    output: Annotated[Path | None, arg(help="Also write the table to this path, as .md and as .csv.")] = None,
    page: Annotated[
        Path | None, arg(help="A page: write its paragraphs between <!-- begin NAME --> and <!-- end NAME --> from tables.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a table over runs: mean and sample standard deviation over seeds. Or write a page's results from tables."""
    from dgl_treestack import atomic
    from dgl_treestack.errors import ConfigurationError
    from dgl_treestack.results.page import update
    from dgl_treestack.results.report import csv, markdown, tabulate

    if page:
        if len(runs) != 1 or output or json or depths or no_cuts or metric != "accuracy":
            raise ConfigurationError("--page takes one folder of tables, such as figures/day, and no other option.")
        update(page, runs[0])
        return
    rows = tabulate(runs, metric, depths=depths, cuts=not no_cuts)
    if not any(title == "validation" or title.startswith("test") for row in rows for title in row):
        raise ConfigurationError(f"The records of these runs have nothing that the metric {metric!r} measures.")
    if output:
        atomic.write_text(output.with_suffix(".md"), markdown(rows) + "\n")
        atomic.write_text(output.with_suffix(".csv"), csv(rows))
    print_json(rows) if json else print(markdown(rows))
