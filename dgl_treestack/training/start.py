"""Starting and resuming runs, one after another or as local processes."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from dgl_treestack.encoders import Encoder
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.processes import CHILD_OF, locked
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs import environment
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.folder import RunFolder
from dgl_treestack.runs.run import Run, build_model
from dgl_treestack.training.interruption import watch_signals
from dgl_treestack.training.loop import Given, Training
from dgl_treestack.training.together import train_together

logger = logging.getLogger("dgl_treestack")


def start(
    config: RunConfig,
    seed: int,
    output_dir: Path,
    *,
    device: str = "cpu",
    resume: bool = False,
    quiet: bool = False,
    data: Given | None = None,
) -> Run:
    """Train one run in `output_dir/<name>-<seed>`, or take it up where it stopped.

    data: training and validation set in place of the files of the configuration, of whose trees those with a label and a depth
    within the configuration's are taken; the same ones have to be given to go on.
    The folder is made only when data and model are there; where another process trains in it, this one waits. Raises
    ConfigurationError when it exists and `resume` is off, or when it holds a run of another configuration or of data that has
    changed since.
    """
    with _opened(config, seed, output_dir, device=device, resume=resume, quiet=quiet, data=data) as (run, training):
        if training:
            training.train()
    return run


def start_stacked(
    config: RunConfig, seeds: Sequence[int], output_dir: Path, *, device: str = "cpu", resume: bool = False, quiet: bool = False
) -> list[Run]:
    """`start` for several seeds in step, computed as one. Each run is what it is by itself, up to rounding.

    Raises ConfigurationError as `start` does, and for what is no tree model.
    """
    check_stackable(config)
    runs = [Run(output_dir / f"{config.name}-{seed}") for seed in seeds]
    for run, seed in zip(runs, seeds, strict=True):  # all, before there is any folder
        if run.is_complete():
            check_resumable(run, config, seed, resume)
    trainings: list[Training] = []
    with ExitStack() as opened:
        for seed in sorted(seeds):  # two processes that lock the same folders do so in the same order
            like, silent = (trainings[0], True) if trainings else (None, quiet)  # one bar for all
            one = _opened(config, seed, output_dir, device=device, resume=resume, quiet=silent, like=like)
            _, training = opened.enter_context(one)
            trainings += [training] if training else []
        if trainings:
            train_together(trainings)
    return runs


def check_stackable(config: RunConfig) -> None:
    """Raise ConfigurationError unless a configuration is of a tree model, whose seeds can be computed as one."""
    if isinstance(build_model(config.model).cell, Encoder):
        raise ConfigurationError(f"--stacked is for tree models; {config.model.name!r} in {config.name!r} is none.")


@contextmanager
def _opened(
    config: RunConfig,
    seed: int,
    output_dir: Path,
    *,
    device: str,
    resume: bool,
    quiet: bool,
    like: Training | None = None,
    data: Given | None = None,
) -> Iterator[tuple[Run, Training | None]]:
    """A run's folder, for this process alone, and its training; None when that is done."""
    check_device(device, config.engine)
    run = Run(output_dir / f"{config.name}-{seed}")
    training = None
    _check_data(config, data or {})
    fingerprints = {f"given {kind} set": one.fingerprint for kind, one in (data or {}).items()}
    if run.is_complete():
        check_resumable(run, config, seed, resume)
        _check_given(run, fingerprints)
        if not run.done.exists():
            _warn_of_other_versions(run)
    else:
        training = Training(run, config, seed, device=device, quiet=quiet, like=like, data=data)
        sizes = {"train": len(training.train_set), "validation": len(training.validation_set)}
        kernels = "compiled" if training.engine == "levels/compiled" else "as they are"
        origin = {"kernels": kernels, "data": checksums(config) | fingerprints, "equations": sizes}
        Run.create(run.folder, config, seed, {**environment.describe(device), **origin})
    with locked(run.folder):
        if run.done.exists():
            logger.info("%s is done already", run.folder, extra={"run": run.folder.name})
            yield run, None
            return
        if training is None or run.last.exists():  # another process may have begun it meanwhile
            training = Training(run, config, seed, device=device, quiet=quiet, like=like, data=data)
        with _logged(run):
            yield run, training


@contextmanager
def _logged(run: Run) -> Iterator[None]:
    """What is logged goes into the run's file as well, but for what is of another run."""
    name = run.folder.name
    handler = logging.FileHandler(run.log)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.addFilter(lambda record: getattr(record, "run", name) == name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def check_resumable(run: Run, config: RunConfig, seed: int, resume: bool) -> None:
    """Raise ConfigurationError unless the folder may be gone on with: same configuration, same seed, same data."""
    if not resume:
        raise ConfigurationError(f"{run.folder} exists. Go on with --resume, or choose another --output-dir.")
    if run.config.hash != config.hash or run.seed != seed:
        raise ConfigurationError(f"{run.folder} holds a run of another configuration. Choose another --output-dir.")
    check_unchanged(run)


def _check_data(config: RunConfig, data: Given) -> None:
    """Raise ConfigurationError for data sets that a run cannot take."""
    for kind, dataset in data.items():
        if kind not in ("train", "validation") or not isinstance(dataset, TreeDataset):
            raise ConfigurationError(f"data[{kind!r}] is no use: give TreeDatasets as 'train' and 'validation'.")
    if data and config.data.percent < 100:
        raise ConfigurationError("'data.percent' is of a configuration's files. Give the share as a TreeDataset of its own.")


def _check_given(run: RunFolder, fingerprints: Mapping[str, str]) -> None:
    """Raise ConfigurationError unless the data sets that are given are those that a run was begun with."""
    recorded = {name: value for name, value in run.environment.get("data", {}).items() if name.startswith("given ")}
    if recorded != fingerprints:
        raise ConfigurationError(f"{run.folder} was begun with other data sets. Give the same ones, or take another folder.")


def _warn_of_other_versions(run: RunFolder) -> None:
    """Numbers are the same to the bit only with what a run was begun with."""
    now, begun = (
        {"commit": one.get("commit"), **one.get("versions", {})} for one in (environment.describe("cpu"), run.environment)
    )
    other = [f"{name} {begun[name]}, now {now[name]}" for name in now if name in begun and begun[name] != now[name]]
    if other:
        logger.warning(
            "%s was begun with %s: numbers may differ from those of a run of one piece", run.folder, "; ".join(other)
        )


def check_unchanged(run: RunFolder) -> None:
    """Raise ConfigurationError when a data file of a run has changed since. Files that are gone are not looked for."""
    for name, checksum in run.environment.get("data", {}).items():
        path = find_data(name)
        if path.is_file() and sha256(path) != checksum:
            raise ConfigurationError(f"{name} has changed since {run.folder} was started. Choose another --output-dir.")


def checksums(config: RunConfig) -> dict[str, str]:
    """SHA-256 of every data file of a configuration, by the name it has there."""
    data = config.data
    return {name: sha256(find_data(name)) for name in dict.fromkeys((*data.train, *data.validation, *data.test))}


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise ConfigurationError for a negative seed, or one given twice."""
    if min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ConfigurationError(f"Seeds are whole numbers from 0 on, each given once; found {', '.join(map(str, seeds))}.")


def check_device(device: str, engine: str) -> None:
    """Raise ConfigurationError unless the device is there, and for `topo` a DGL that is built for it."""
    if device == "cpu":
        return
    from dgl_treestack import _dgl

    if not (device.startswith("cuda") and torch.cuda.is_available()):
        raise ConfigurationError(f"The device {device!r} is not available here. Use --device cpu.")
    if engine == "topo" and not _dgl.has_cuda():
        raise ConfigurationError(
            f"DGL {_dgl.VERSION} is built without CUDA, which engine = 'topo' needs on a GPU. Take engine = 'levels'."
        )


def start_many(commands: Sequence[Sequence[str]], jobs: int) -> int:
    """Run `treestack train ...` commands as processes of one thread each, `jobs` at a time. Returns the worst exit code."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1", CHILD_OF: str(os.getpid())}
    running: list[subprocess.Popen[str]] = []

    def pass_on(number: int) -> None:
        if number == signal.SIGTERM:  # Ctrl-C reaches the children by itself
            for process in running:
                process.terminate()

    with watch_signals(pass_on) as watch:

        def run(command: Sequence[str]) -> int:
            if watch.number:
                return 128 + watch.number
            # through a pipe, so that the children log whole lines instead of drawing bars over each other
            command = [sys.executable, "-m", "dgl_treestack", *command]
            process = subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True)
            running.append(process)
            for line in process.stderr or ():
                logger.info(line.rstrip("\n"))
            return process.wait()

        with ThreadPoolExecutor(jobs) as pool:
            codes = list(pool.map(run, commands))
    return max((code if code >= 0 else 128 - code for code in codes), default=0)
