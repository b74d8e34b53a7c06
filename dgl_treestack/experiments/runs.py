"""Runs of many configurations and seeds in one folder: finished ones are skipped, stopped ones are resumed.

A sweep is a grid of runs, one folder per configuration and seed, named by the hash of the configuration, as its file says:
`docs/commands.md` has one.
"""

import itertools
import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import atomic, plain_data
from dgl_treestack.cluster import Command
from dgl_treestack.errors import ConfigurationError, DivergenceError
from dgl_treestack.processes import Interrupted, Jobs, start_many
from dgl_treestack.resources import find_config
from dgl_treestack.results import report
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import Named, RunConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.training.start import check_seeds, check_unchanged, start

logger = logging.getLogger(__name__)

Planned = tuple[Named, int]  # a run: configuration, of any kind, and seed


def finished(config: Named, seed: int, folder: Path) -> Path | None:
    """Return the folder of a run, None unless it is finished. Raises ConfigurationError when its data has changed since."""
    run = Run(folder / f"{config.name}-{seed}")
    if not run.done.exists():
        return None
    check_unchanged(run)
    return run.folder


def missing(runs: Sequence[Planned], folder: Path, *, given: Container[str] = ()) -> list[Planned]:
    """Return the runs that are not finished. given: names of runs that are not needed."""
    needed = [(config, seed) for config, seed in runs if f"{config.name}-{seed}" not in given]
    unfinished = [(config, seed) for config, seed in needed if not finished(config, seed, folder)]
    logger.info("%d runs, %d of them done", len(runs), len(runs) - len(unfinished))
    return unfinished


def train_missing(runs: Sequence[Planned], folder: Path, files: Path, *, jobs: Jobs, given: Container[str] = ()) -> int:
    """Train the runs that are not finished, in their order. Returns the largest exit code.

    files: the folder for the configurations. given: names of runs that are not needed. With several jobs or a cluster the runs
    are processes; otherwise they are trained here, and a run that diverges does not stop the next one.
    """
    unfinished = missing(runs, folder, given=given)
    for config in {config.name: config for config, _ in runs}.values():
        atomic.write_text(files / f"{config.name}.toml", configuration.dump(config))
    if jobs != 1:
        commands = []
        for config, seed in unfinished:
            file = files / f"{config.name}.toml"
            arguments = ("train", str(file), "--seed", str(seed), "--output-dir", str(folder), "--resume")
            commands.append(Command(arguments, folder, (file,)))
        return start_many(commands, jobs)
    torch.set_num_threads(1)  # states are too small for a second thread to help, and runs share the machine
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


@dataclass(frozen=True)
class Sweep:
    """A grid of runs, as in its file. base: name of a configuration. set: values replaced in it, grid: lists of such values."""

    base: str
    seeds: tuple[int, ...] = (0,)
    set: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, values in {"seeds": self.seeds, **self.grid}.items():
            if not values:
                raise ConfigurationError(f"{key!r} is empty; it lists one value or more.")
        check_seeds(self.seeds)
        if len({config.name for _, config in self.configs}) < len(self.configs):
            raise ConfigurationError("Two points of the grid are the same configuration. List every value once.")

    @cached_property
    def configs(self) -> Sequence[tuple[Mapping[str, Any], RunConfig]]:
        """Pairs of the grid's values, key -> value, and the configuration."""
        base = plain_data.replaced(configuration.load(find_config(self.base)), self.set.items())
        configs = []
        for combination in itertools.product(*self.grid.values()):
            varied = dict(zip(self.grid, combination, strict=True))
            config = plain_data.replaced(base, varied.items())
            configs.append((varied, replace(config, name=f"{config.name}-{config.hash}")))
        return configs


def load_sweep(path: Path) -> Sweep:
    """Return the sweep in a TOML file. Raises ConfigurationError that names the file."""
    return plain_data.read_toml(path, partial(plain_data.build, Sweep))


def tabulate(sweep: Sweep, output_dir: Path) -> list[dict[str, Any]]:
    """Return a row per configuration with a finished run: the grid's values, then the columns of `treestack report`."""
    rows = []
    for varied, config in sweep.configs:
        if folders := [path for seed in sweep.seeds if (path := finished(config, seed, output_dir))]:
            (row,) = report.tabulate(folders)
            rows.append({**{key.rpartition(".")[2]: value for key, value in varied.items()}, **row})
    return rows
