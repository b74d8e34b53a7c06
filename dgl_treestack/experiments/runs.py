"""Runs of many configurations and seeds in one folder: those that are done are left alone, those that were stopped go on."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from dgl_treestack import atomic
from dgl_treestack.errors import DivergenceError
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.folder import RunFolder
from dgl_treestack.training.interruption import Interrupted
from dgl_treestack.training.start import check_unchanged, start, start_many

logger = logging.getLogger(__name__)


def finished(config: RunConfig, seeds: Sequence[int], folder: Path) -> list[Path]:
    """The folders of a configuration's runs that are done. Raises ConfigurationError when their data has changed since."""
    runs = [run for run in (RunFolder(folder / f"{config.name}-{seed}") for seed in seeds) if run.done.exists()]
    for run in runs:
        check_unchanged(run)
    return [run.folder for run in runs]


def missing(configs: Sequence[RunConfig], seeds: Sequence[int], folder: Path) -> list[str]:
    """The names of the runs that are not done, seed after seed."""
    return [f"{config.name}-{seed}" for config, seed in _unfinished(configs, seeds, folder)]


def train_missing(configs: Sequence[RunConfig], seeds: Sequence[int], folder: Path, files: Path, *, jobs: int) -> int:
    """Train what is not done, seed after seed, so that one seed of everything is there first. Returns the worst exit code.

    files: the folder that gets the configurations.
    """
    unfinished = _unfinished(configs, seeds, folder)
    for config in configs:
        atomic.write_text(files / f"{config.name}.toml", configuration.dump(config))
    if jobs <= 1:
        return _train_here(unfinished, folder)
    common = ["--output-dir", str(folder), "--resume"]
    return start_many([["train", str(files / f"{c.name}.toml"), "--seed", str(s), *common] for c, s in unfinished], jobs)


def _unfinished(configs: Sequence[RunConfig], seeds: Sequence[int], folder: Path) -> list[tuple[RunConfig, int]]:
    runs = [(config, seed) for seed in seeds for config in configs]
    unfinished = [(config, seed) for config, seed in runs if not finished(config, [seed], folder)]
    logger.info("%d runs, %d of them done", len(runs), len(runs) - len(unfinished))
    return unfinished


def _train_here(runs: Iterable[tuple[RunConfig, int]], folder: Path) -> int:
    """One after another. A run that diverges stops no other."""
    torch.set_num_threads(1)
    code = 0
    for config, seed in runs:
        try:
            start(config, seed, folder, resume=True)
        except Interrupted as stop:
            logger.info(stop)
            return stop.exit_code
        except DivergenceError as error:
            logger.error("%s-%d: %s", config.name, seed, error)
            code = 2
    return code
