"""`treestack sweep`: all runs of a grid, those that are done left alone, and a table of them."""

import json
from pathlib import Path
from typing import Any

from dgl_treestack.experiments import grid
from dgl_treestack.experiments.grid import Sweep
from dgl_treestack.experiments.runs import finished, train_missing
from dgl_treestack.resources import find_sweep
from dgl_treestack.results import report


def run_sweep(name: str, output_dir: Path, *, jobs: int, dry_run: bool, as_json: bool) -> int:
    """Train what is missing and print the table of what is done. Returns the exit code.

    Raises ConfigurationError for a file that describes no sweep.
    """
    described = grid.load(find_sweep(name))
    configs = [config for _, config in described.configs]
    code = train_missing(configs, described.seeds, output_dir, output_dir / "configs", jobs=jobs, dry_run=dry_run)
    if not dry_run:
        rows = tabulate(described, output_dir)
        print(json.dumps(rows, indent=1) if as_json else report.markdown(rows) if rows else "No run is done yet.")
    return code


def tabulate(described: Sweep, output_dir: Path) -> list[dict[str, Any]]:
    """A row per configuration of which a run is done: what it varies, then what `treestack report` shows."""
    rows = []
    for varied, config in described.configs:
        done = finished(config, described.seeds, output_dir)
        if done:
            (row,) = report.tabulate(done)
            rows.append({**{key.rpartition(".")[2]: value for key, value in varied.items()}, **row})
    return rows
