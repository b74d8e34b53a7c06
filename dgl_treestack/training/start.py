"""Starting and resuming runs, one after another or as local processes."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.processes import CHILD_OF, locked
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs import environment
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.folder import RunFolder
from dgl_treestack.runs.run import Run
from dgl_treestack.training.interruption import watch_signals
from dgl_treestack.training.loop import DataSets, Training

logger = logging.getLogger("dgl_treestack")


def start(
    config: RunConfig,
    seed: int,
    output_dir: Path,
    *,
    device: str = "cpu",
    resume: bool = False,
    quiet: bool = False,
    data: DataSets | None = None,
) -> Run:
    """Train one run in `output_dir/<name>-<seed>`, or resume it where it stopped.

    data: training and validation set in place of the configuration's files, of which the trees with a label and a depth within
    the configuration's are taken; a run that began with them is resumed with the same ones.

    The folder is created once data and model are ready. While another process trains in it, this one waits. Raises
    ConfigurationError when the folder exists and `resume` is off, or when it holds a run of another configuration or of data
    that has changed since.
    """
    with _opened(config, seed, output_dir, device=device, resume=resume, quiet=quiet, data=data) as (run, training):
        if training:
            training.train()
    return run


@contextmanager
def _opened(
    config: RunConfig,
    seed: int,
    output_dir: Path,
    *,
    device: str,
    resume: bool,
    quiet: bool,
    data: DataSets | None = None,
) -> Iterator[tuple[Run, Training | None]]:
    """Yield a run, its folder locked, with its training, or with None when it is done; log into the run's file meanwhile."""
    fingerprints = _check_inputs(config, device, data or {})
    run = Run(output_dir / f"{config.name}-{seed}")
    training = None
    if run.is_complete():
        check_resumable(run, config, seed, resume, fingerprints)
        if not run.done.exists():
            _warn_of_other_versions(run)
    else:
        training = Training(run, config, seed, device=device, quiet=quiet, data=data)
        files = dict.fromkeys((*config.data.train, *config.data.validation, *config.data.test))
        origin = {
            "kernels": "compiled" if training.engine == "levels/compiled" else "as they are",
            "data": {name: sha256(find_data(name)) for name in files} | fingerprints,
            "equations": {"train": len(training.train_set), "validation": len(training.validation_set)},
        }
        Run.create(run.folder, config, seed, {**environment.describe(device), **origin})
    with locked(run.folder):
        if run.done.exists():
            logger.info("%s is done already", run.folder, extra={"run": run.folder.name})
            yield run, None
            return
        if training is None or run.last.exists():  # another process may have trained it meanwhile
            training = Training(run, config, seed, device=device, quiet=quiet, data=data)
        handler = logging.FileHandler(run.log)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        handler.addFilter(lambda record: getattr(record, "run", run.folder.name) == run.folder.name)
        logger.addHandler(handler)
        try:
            yield run, training
        finally:
            logger.removeHandler(handler)
            handler.close()


def _check_inputs(config: RunConfig, device: str, data: DataSets) -> dict[str, str]:
    """Return fingerprints of the data sets that were passed in.

    Raises ConfigurationError for data sets that a run cannot take, for a device that is not available, and for a GPU with the
    engine `topo` and a DGL without CUDA.
    """
    if device != "cpu":
        from dgl_treestack import _dgl

        if not (device.startswith("cuda") and torch.cuda.is_available()):
            raise ConfigurationError(f"The device {device!r} is not available here. Use --device cpu.")
        if config.engine == "topo" and not _dgl.has_cuda():
            raise ConfigurationError(
                f"DGL {_dgl.VERSION} is built without CUDA, which engine = 'topo' needs on a GPU. Take engine = 'levels'."
            )
    for kind, dataset in data.items():
        if kind not in ("train", "validation") or not isinstance(dataset, TreeDataset):
            raise ConfigurationError(f"data[{kind!r}] is no use: give TreeDatasets as 'train' and 'validation'.")
    if data and config.data.percent < 100:
        raise ConfigurationError("'data.percent' is of a configuration's files. Give the share as a TreeDataset of its own.")
    return {f"given {kind} set": dataset.fingerprint for kind, dataset in data.items()}


def check_resumable(
    run: Run, config: RunConfig, seed: int, resume: bool, fingerprints: Mapping[str, str] | None = None
) -> None:
    """Raise ConfigurationError unless a run can be resumed: `resume` is on; configuration, seed and data are the same.

    fingerprints: of the data sets that were passed in, by their names in environment.json; None to leave them unchecked.
    """
    if not resume:
        raise ConfigurationError(f"{run.folder} exists. Go on with --resume, or choose another --output-dir.")
    if run.config.hash != config.hash or run.seed != seed:
        raise ConfigurationError(f"{run.folder} holds a run of another configuration. Choose another --output-dir.")
    check_unchanged(run)
    recorded = {name: value for name, value in run.environment.get("data", {}).items() if name.startswith("given ")}
    if fingerprints is not None and recorded != fingerprints:
        raise ConfigurationError(f"{run.folder} was begun with other data sets. Give the same ones, or take another folder.")


def check_unchanged(run: RunFolder) -> None:
    """Raise ConfigurationError when a data file of a run has changed since. Files that no longer exist are ignored."""
    for name, checksum in run.environment.get("data", {}).items():
        path = find_data(name)
        if path.is_file() and sha256(path) != checksum:
            raise ConfigurationError(f"{name} has changed since {run.folder} was started. Choose another --output-dir.")


def _warn_of_other_versions(run: RunFolder) -> None:
    """Warn when commit or versions differ from those that the run began with: numbers are then not equal to the bit."""
    now, before = (
        {"commit": origin.get("commit"), **origin.get("versions", {})}
        for origin in (environment.describe("cpu"), run.environment)
    )
    changes = [f"{name} {before[name]}, now {now[name]}" for name in now if name in before and before[name] != now[name]]
    if changes:
        logger.warning(
            "%s was begun with %s: numbers may differ from those of a run of one piece", run.folder, "; ".join(changes)
        )


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise ConfigurationError for a negative seed, or one given twice."""
    if min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ConfigurationError(f"Seeds are whole numbers from 0 on, each given once; found {', '.join(map(str, seeds))}.")


def start_many(commands: Sequence[Sequence[str]], jobs: int) -> int:
    """Run `treestack train ...` commands as processes of one thread each, `jobs` at a time. Returns the worst exit code."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1", CHILD_OF: str(os.getpid())}
    children: list[subprocess.Popen[str]] = []
    with watch_signals(children) as watch:

        def run(command: Sequence[str]) -> int:
            if watch.number:
                return 128 + watch.number
            # through a pipe, so that the children log whole lines instead of drawing bars over each other
            command = [sys.executable, "-m", "dgl_treestack", *command]
            process = subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True)
            children.append(process)
            for line in process.stderr or ():
                logger.info(line.rstrip("\n"))
            return process.wait()

        with ThreadPoolExecutor(jobs) as pool:
            codes = list(pool.map(run, commands))
    return max((code if code >= 0 else 128 - code for code in codes), default=0)
