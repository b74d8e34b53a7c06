"""`treestack reproduce`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack.cli import Cpus, Jobs, OnCluster, where


def reproduce(
    protocols: Annotated[
        Positional[tuple[str, ...]], arg(help="Names of protocols, or all; without any, they are listed.")
    ] = (),
    *,
    scale: Annotated[str, arg(help="smoke: minutes, to see it run; day: a day of two cores; paper: as the papers.")] = "smoke",
    output_dir: Annotated[Path | None, arg(help="Folder for runs, tables and figures. Default: reproduced/SCALE.")] = None,
    seeds: Annotated[tuple[int, ...], arg(help="Seeds to use instead of those of the scale.")] = (),
    data: Annotated[
        Path | None, arg(help="Folder of the authors' 40k_train.json, 40k_val_shallow.json and 40k_test.json, for authors_40k.")
    ] = None,
    jobs: Jobs = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    train: Annotated[bool, arg(help="Train missing runs. With --no-train: only tables and figures of finished runs.")] = True,
    from_records: Annotated[
        tuple[Path, ...], arg(help="Files records.parquet of earlier tables; their runs are not trained again.")
    ] = (),
    dry_run: Annotated[bool, arg(help="Only list the runs that are missing.")] = False,
) -> int:
    """Run the papers' experiments: tables with their numbers beside ours, figures. Runs that are done are not repeated."""
    from dgl_treestack.experiments import reproduce as experiments

    if not protocols:
        print(experiments.describe())
        return 0
    folder = output_dir or Path("reproduced") / scale
    if dry_run:
        print("\n".join(experiments.missing(protocols, scale, folder, seeds=seeds, data=data, from_records=from_records)))
        return 0
    tasks = where(jobs, cluster, cpus_per_task)
    return experiments.reproduce(
        protocols, scale, folder, seeds=seeds, data=data, jobs=tasks, train=train, from_records=from_records, show=print
    )
