"""`treestack evaluate`."""

import math
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack.cli._arguments import Cpus, Engine, Json, OnCluster, Precision, print_json, where


def evaluate(
    run: Annotated[Positional[Path], arg(help="A run folder.")],
    data: Annotated[
        Positional[str], arg(help="A file of trees (.jsonl, .tsv, .txt or the authors' .json, may be .gz), or bundled:...")
    ],
    *,
    output: Annotated[Path | None, arg(help="Also write the records to this file.")] = None,
    engine: Engine = "levels",
    precision: Precision = "float32",
    jobs: Annotated[int, arg(help="Processes that share the file out; the records are the same.")] = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    no_cuts: Annotated[
        bool, arg(help="Leave equations on a branch cut out of the numbers; their records are written.")
    ] = False,
    json: Json = False,
) -> None:
    """Score a data file with a run. Writes one record per equation, in file order, into the run folder."""
    import torch

    from dgl_treestack.data import records
    from dgl_treestack.results.metrics import MEAN_ERROR, classification
    from dgl_treestack.runs import evaluation
    from dgl_treestack.runs.run import Run

    opened = Run.open(run)
    rows = evaluation.evaluate(
        opened,
        data,
        output=output,
        engine=engine,
        dtype=getattr(torch, precision),
        jobs=where(jobs, cluster, cpus_per_task),
    )
    if no_cuts:
        rows = records.without_cuts(rows)
    group_by = opened.config.data.group_by
    judged = [row for row in rows if row["correct"] is not None]
    overall = classification(judged) if judged else {}
    by_group = {}
    for value, group in records.grouped(judged, group_by).items():
        share = records.majority(group)
        majority = None if math.isnan(share) else share
        by_group[value] = {"count": len(group), "accuracy": records.accuracy(group), "majority": majority}
    if json:
        print_json({"equations": len(rows), **overall, f"by_{group_by}": by_group})
        return
    noun = "nodes" if any("node" in row for row in rows) else "trees" if opened.language.words else "equations"
    print(f"{len(rows)} {noun}, {len(judged)} that can be judged")
    units = {MEAN_ERROR: ""}  # all others are in per cent
    print(", ".join(f"{name} {value:.1f}{units.get(name, ' %')}" for name, value in overall.items()))
    for value, line in by_group.items():
        baseline = "" if line["majority"] is None else f" (majority {line['majority']:.1f})"
        print(f"  {group_by} {value:>3}: {line['count']:>6} {noun}, {line['accuracy']:5.1f} %{baseline}")
