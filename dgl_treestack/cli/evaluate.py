"""`treestack evaluate`."""

import math
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from dgl_treestack.cli import Cpus, Engine, Json, OnCluster, Precision, print_json, refuse_if, where
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs.run import Run


def evaluate(
    run: Annotated[Positional[Path], arg(help="A run folder.")],
    data: Annotated[
        Positional[tuple[str, ...]],
        arg(help="Files of trees (.jsonl, .tsv, .txt or the authors' .json, may be .gz), or bundled:..."),
    ],
    *,
    output: Annotated[Path | None, arg(help="Also write the records to this file; of a single file.")] = None,
    engine: Engine = "levels",
    precision: Precision = "float32",
    jobs: Annotated[int, arg(help="Processes that share a file out; the records are the same.")] = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    no_cuts: Annotated[
        bool, arg(help="Leave equations on a branch cut out of the numbers; their records are written.")
    ] = False,
    json: Json = False,
) -> None:
    """Score data files with a run. Writes one record per equation, in file order, into the run folder."""
    import torch

    from dgl_treestack.data import records
    from dgl_treestack.results.metrics import MEAN_ERROR, classification
    from dgl_treestack.runs import evaluation

    broken_rules = {
        "There is no file to evaluate. Name at least one.": not data,
        "--output is for the records of a single file. Leave it out, or evaluate the files in turn.": output and len(data) > 1,
    }
    refuse_if(broken_rules)
    opened = Run.open(run)
    workers = where(jobs, cluster, cpus_per_task)
    group_by = opened.config.data.group_by
    for file in data:
        sha256(find_data(file))  # all can be read, before the first is scored
    scores = []
    for file in data:
        table = evaluation.evaluate(opened, file, output=output, engine=engine, dtype=getattr(torch, precision), jobs=workers)
        if no_cuts:
            table = records.without_cuts(table)
        judged = table.filter(table["correct"].is_not_null())
        overall = classification(judged) if len(judged) else {}
        by_group: dict[int, dict[str, Any]] = {}
        for value, group in records.by(judged, group_by).items():
            majority = None if math.isnan(share := records.majority(group)) else share
            by_group[value] = {"count": len(group), "accuracy": records.accuracy(group), "majority": majority}
        scores.append({"data": file, "equations": len(table), "judged": len(judged), **overall, f"by_{group_by}": by_group})
        if json:
            continue
        noun = "nodes" if "node" in table.columns else "trees" if opened.language.words else "equations"
        name = f"{file}: " if len(data) > 1 else ""
        print(f"{name}{len(table)} {noun}, {len(judged)} that can be judged")
        units = {MEAN_ERROR: ""}  # all others are in per cent
        print(", ".join(f"{title} {value:.1f}{units.get(title, ' %')}" for title, value in overall.items()))
        for value, line in by_group.items():
            baseline = "" if line["majority"] is None else f" (majority {line['majority']:.1f})"
            print(f"  {group_by} {value:>3}: {line['count']:>6} {noun}, {line['accuracy']:5.1f} %{baseline}")
    if json:
        print_json(scores[0] if len(data) == 1 else scores)
