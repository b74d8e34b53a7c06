"""A grid of runs: one folder per configuration and seed, named by the hash of the configuration.

    base = "configs/paper/tree_smu.toml"     # what all have in common
    seeds = [0, 1, 2]
    [set]                                    # replaced in all of them
    "schedule.epochs" = 15
    [grid]                                   # every combination is a configuration
    "model.dropout" = [0.0, 0.1]
    "model.settings.stack_size" = [1, 2, 3]

Started again, a sweep skips finished runs and resumes those that were stopped.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgl_treestack import plain_data
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.experiments.runs import finished
from dgl_treestack.resources import find_config
from dgl_treestack.results import report
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.training.start import check_seeds

KEYS = ("base", "seeds", "set", "grid")


@dataclass(frozen=True)
class Sweep:
    """A grid of runs.

    configs: pairs of the grid's values, key -> value, and the configuration. seeds: of every configuration.
    """

    configs: Sequence[tuple[Mapping[str, Any], RunConfig]]
    seeds: tuple[int, ...]


def load(path: Path) -> Sweep:
    """Return the sweep in a TOML file. Raises ConfigurationError that names the file."""
    return plain_data.read_toml(path, _sweep)


def _sweep(data: dict[str, Any]) -> Sweep:
    """Return the sweep in plain data. Raises ConfigurationError."""
    for key in data:
        if key not in KEYS:
            raise ConfigurationError(unknown("key of a sweep", key, KEYS))
    seeds, grid, common = data.get("seeds", [0]), data.get("grid", {}), data.get("set", {})
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
        raise ConfigurationError(f"'seeds' is {seeds!r}; it lists whole numbers from 0 on.")
    check_seeds(seeds)
    for key, table in (("set", common), ("grid", grid)):
        if not isinstance(table, dict):
            raise ConfigurationError(f"{key!r} is {table!r}; it is a table, [{key}], of keys of a configuration.")
    if not isinstance(data.get("base"), str):
        raise ConfigurationError("The key 'base' names a configuration, such as \"configs/paper/tree_smu.toml\".")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ConfigurationError(f"{key!r} in the grid is {values!r}; it lists values.")
    base = plain_data.replaced(configuration.load(find_config(data["base"])), common.items())
    configs = []
    for combination in itertools.product(*grid.values()):
        varied = dict(zip(grid, combination, strict=True))
        config = plain_data.replaced(base, varied.items())
        configs.append((varied, replace(config, name=f"{config.name}-{config.hash}")))
    if len({config.name for _, config in configs}) < len(configs):
        raise ConfigurationError("Two points of the grid are the same configuration. List every value once.")
    return Sweep(configs, tuple(seeds))


def tabulate(sweep: Sweep, output_dir: Path) -> list[dict[str, Any]]:
    """Return a row per configuration with a finished run: the grid's values, then the columns of `treestack report`."""
    rows = []
    for varied, config in sweep.configs:
        folders = finished(config, sweep.seeds, output_dir)
        if folders:
            (row,) = report.tabulate(folders)
            rows.append({**{key.rpartition(".")[2]: value for key, value in varied.items()}, **row})
    return rows
