"""`treestack sweep`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack.cli import Cpus, Jobs, Json, OnCluster, print_json, where


def sweep(
    file: Annotated[Positional[str], arg(help="A TOML file with base, seeds, set and grid; configs/sweep/ has the papers'.")],
    *,
    output_dir: Annotated[Path, arg(help="Where the run folders <name>-<hash>-<seed> go.")] = Path("runs"),
    jobs: Jobs = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    dry_run: Annotated[bool, arg(help="Only list the runs that are missing.")] = False,
    json: Json = False,
) -> int:
    """Train a grid of configurations and seeds, and print a table. Run it again to continue; finished runs are skipped."""
    from dgl_treestack.experiments.runs import load_sweep, missing, tabulate, train_missing
    from dgl_treestack.resources import find_config
    from dgl_treestack.results import report

    settings = load_sweep(find_config(file, "sweep"))
    runs = [(config, seed) for seed in settings.seeds for _, config in settings.configs]
    if dry_run:
        print("\n".join(f"{config.name}-{seed}" for config, seed in missing(runs, output_dir)))
        return 0
    configs = output_dir / ".configs"  # hidden, so that `report runs/*` names runs alone
    code = train_missing(runs, output_dir, configs, jobs=where(jobs, cluster, cpus_per_task))
    rows = tabulate(settings, output_dir)
    print_json(rows) if json else print(report.markdown(rows) if rows else "No run is done yet.")
    return code
