"""`treestack report`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack import atomic
from dgl_treestack.cli import Json, On, print_json, refuse_if


def report(
    runs: Annotated[Positional[tuple[Path, ...]], arg(help="Run folders.")],
    *,
    metric: Annotated[
        str, arg(help="accuracy, precision, recall, f1, macro_f1, roots (records of nodes), r2, pairs or calibration.")
    ] = "accuracy",
    depths: Annotated[bool, arg(help="Add a column for every depth, or other measure, of the test set.")] = False,
    no_cuts: Annotated[bool, arg(help="Leave out equations with a value on a branch cut or at a branch point.")] = False,
    on: On = "",
    compare: Annotated[
        bool, arg(help="Also print how far each configuration's accuracy is behind the highest, with interval and p-values.")
    ] = False,
    output: Annotated[Path | None, arg(help="Also write the table to this path, as .md and as .csv.")] = None,
    json: Json = False,
) -> None:
    """Print a table over runs: mean and sample standard deviation over seeds."""
    from dgl_treestack.results import report as tables
    from dgl_treestack.results.run_result import read

    results = [read(folder, on, cuts=not no_cuts) for folder in runs]
    rows = tables.rows_of(results, metric, depths=depths)
    is_measured = any(title == "validation" or title.startswith("test") for row in rows for title in row)
    refuse_if({f"The records of these runs have nothing that the metric {metric!r} measures.": not is_measured})
    answers_of = tables.answers_of_runs(results) if compare else {}
    behind = tables.comparison(answers_of, "these records", "records") if compare else []
    text = "\n\n".join([tables.markdown(rows), *behind])
    if output:
        atomic.write_text(output.with_suffix(".md"), text + "\n")
        atomic.write_text(output.with_suffix(".csv"), tables.csv(rows))
    if json:
        print_json({"table": rows, "behind the best": tables.behind_best(answers_of)} if compare else rows)
    else:
        print(text)
