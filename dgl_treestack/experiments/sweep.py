"""`treestack sweep`: all runs of a grid, those that are done left alone, and a table of them."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import report
from dgl_treestack.errors import DivergenceError
from dgl_treestack.resources import find_sweep
from dgl_treestack.training import sweep
from dgl_treestack.training.configuration import RunConfig
from dgl_treestack.training.folder import RunFolder
from dgl_treestack.training.interruption import Interrupted
from dgl_treestack.training.start import start, start_many
from dgl_treestack.training.sweep import Sweep

logger = logging.getLogger(__name__)


def run_sweep(name: str, output_dir: Path, *, jobs: int, dry_run: bool, as_json: bool) -> int:
    """Train what is missing and print the table of what is done. Returns the exit code.

    Raises ConfigurationError for a file that describes no sweep.
    """
    described = sweep.load(find_sweep(name))
    missing = [
        (config, seed) for _, config, seed in described.runs if not folder_of(output_dir, config.name, seed).done.exists()
    ]
    done = len(described.runs) - len(missing)
    logger.info("%d runs, %d of them done", len(described.runs), done)
    if dry_run:
        print("\n".join(f"{config.name}-{seed}" for config, seed in missing))
        return 0
    files = sweep.write_configs(described, output_dir)
    code = train_all(missing, files, output_dir, jobs)
    rows = tabulate(described, output_dir)
    print(json.dumps(rows, indent=1) if as_json else report.markdown(rows) if rows else "No run is done yet.")
    return code


def train_all(runs: Sequence[tuple[RunConfig, int]], files: Mapping[str, Path], output_dir: Path, jobs: int) -> int:
    """Train runs, or go on with them: here one after another, or as so many processes. A run that diverges stops no other.

    files: of the configurations, by name. Returns the worst exit code.
    """
    if jobs > 1:
        common = ["--output-dir", str(output_dir), "--resume"]
        return start_many([["train", str(files[c.name]), "--seed", str(seed), *common] for c, seed in runs], jobs)
    torch.set_num_threads(1)
    code = 0
    for config, seed in runs:
        try:
            start(config, seed, output_dir, resume=True)
        except Interrupted as stop:
            logger.info(stop)
            return stop.exit_code
        except DivergenceError as error:
            logger.error("%s-%d: %s", config.name, seed, error)
            code = 2
    return code


def folder_of(output_dir: Path, name: str, seed: int) -> RunFolder:
    """Where a run of the sweep lives."""
    return RunFolder(output_dir / f"{name}-{seed}")


def tabulate(described: Sweep, output_dir: Path) -> list[dict[str, Any]]:
    """A row per configuration of which a run is done: what it varies, then what `treestack report` shows."""
    rows = []
    for varied, config in described.configs:
        folders = [folder_of(output_dir, config.name, seed) for seed in described.seeds]
        finished = [run.folder for run in folders if run.done.exists()]
        if finished:
            (row,) = report.tabulate(finished)
            rows.append({**{key.rpartition(".")[2]: value for key, value in varied.items()}, **row})
    return rows
