"""Runs of many configurations and seeds in one folder: finished ones are skipped, stopped ones are resumed."""

import logging
from collections.abc import Container, Sequence
from pathlib import Path

import torch

from dgl_treestack import atomic
from dgl_treestack.cluster import Command
from dgl_treestack.errors import DivergenceError
from dgl_treestack.processes import Interrupted, Jobs, start_many
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import Named
from dgl_treestack.runs.run import Run
from dgl_treestack.training.start import check_unchanged, start

logger = logging.getLogger(__name__)

Planned = tuple[Named, int]  # a run: configuration, of any kind, and seed


def finished(config: Named, seeds: Sequence[int], folder: Path) -> list[Path]:
    """Return the folders of a configuration's finished runs. Raises ConfigurationError when their data has changed since."""
    runs = [run for run in (Run(folder / f"{config.name}-{seed}") for seed in seeds) if run.done.exists()]
    for run in runs:
        check_unchanged(run)
    return [run.folder for run in runs]


def missing(runs: Sequence[Planned], folder: Path, *, given: Container[str] = ()) -> list[str]:
    """Return the names of the runs that are not finished. given: names of runs that are not needed."""
    return [f"{config.name}-{seed}" for config, seed in _unfinished(runs, folder, given)]


def train_missing(runs: Sequence[Planned], folder: Path, files: Path, *, jobs: Jobs, given: Container[str] = ()) -> int:
    """Train the runs that are not finished, in their order. Returns the largest exit code.

    files: the folder for the configurations. given: names of runs that are not needed. With several jobs or a cluster the runs
    are processes; otherwise they are trained here, and a run that diverges does not stop the next one.
    """
    unfinished = _unfinished(runs, folder, given)
    for config in {config.name: config for config, _ in runs}.values():
        atomic.write_text(files / f"{config.name}.toml", configuration.dump(config))
    if jobs != 1:
        commands = []
        for config, seed in unfinished:
            file = files / f"{config.name}.toml"
            arguments = ("train", str(file), "--seed", str(seed), "--output-dir", str(folder), "--resume")
            commands.append(Command(arguments, folder, (file,)))
        return start_many(commands, jobs)
    torch.set_num_threads(1)
    code = 0
    for config, seed in unfinished:
        try:
            start(config, seed, folder, resume=True)
        except Interrupted as stop:
            logger.info(stop)
            return stop.exit_code
        except DivergenceError as error:
            logger.error("%s-%d: %s", config.name, seed, error)
            code = 2
    return code


def _unfinished(runs: Sequence[Planned], folder: Path, given: Container[str]) -> list[Planned]:
    """Return the runs that are not finished."""
    needed = [(config, seed) for config, seed in runs if f"{config.name}-{seed}" not in given]
    unfinished = [(config, seed) for config, seed in needed if not finished(config, [seed], folder)]
    logger.info("%d runs, %d of them done", len(runs), len(runs) - len(unfinished))
    return unfinished
