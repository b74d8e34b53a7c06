"""Starting and resuming a run."""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import _dgl, plain_data
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.errors import ConfigurationError, OutputError
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.processes import locked, processes_of_run
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs.configuration import Named, RunConfig
from dgl_treestack.runs.environment import GOES_ON_ELSEWHERE, describe_environment, with_resumption
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.sequence_configuration import StreamConfig, TextConfig, TransductionConfig
from dgl_treestack.runs.weights import read_weights
from dgl_treestack.training.build import DataSets, Place
from dgl_treestack.training.loop import Checkpoint, OnEpoch, Training
from dgl_treestack.training.objective import Objective
from dgl_treestack.training.streams import StreamObjective
from dgl_treestack.training.text import TextObjective
from dgl_treestack.training.transductions import TransductionObjective
from dgl_treestack.training.trees import TreeObjective

logger = logging.getLogger("dgl_treestack")


def start(
    config: Named,
    seed: int,
    output_dir: Path,
    *,
    device: str = "cpu",
    resume: bool = False,
    quiet: bool = False,
    data: DataSets | None = None,
    columns: Place = "auto",
    on_epoch: OnEpoch | None = None,
) -> Run:
    """Train one run in `output_dir/<name>-<seed>`, or resume it where it stopped.

    config: a `RunConfig`, or that of a text, of streams or of a transduction, which are learned on the CPU and have none of the
    arguments below but `resume`, `quiet` and `on_epoch`.

    data: training and validation set in place of the configuration's files; only labelled trees of the configured depths are
    used. To resume such a run, pass the same sets.

    columns: where the prepared training set is: in memory; on the disk beside its file, for more equations than fit into
    memory; or as the size of the files says. The results are the same.

    on_epoch: called after every epoch, in the first process, with its row of metrics.jsonl and the model; it changes neither.

    The folder is created when data and model are ready. While another process trains in it, this one waits. A run that goes on
    with another commit, device or version than before says so in its environment, under `resumed`. Raises
    ConfigurationError if the folder exists and `resume` is off, or if it holds a run of another configuration or of data that
    has changed since.

    Started by `torchrun`, the processes train it together, see `dgl_treestack.distributed`.
    """
    _check_inputs(config, device, data or {})
    fingerprints = {f"given {kind} set": dataset.fingerprint for kind, dataset in (data or {}).items()}
    if device != "cpu":
        compute_in_float32()
    world = World.join(device)
    run = Run(output_dir / f"{config.name}-{seed}")
    if world.size > 1 and run.has_description() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        resume = resume or run.environment.get("torchrun") == os.environ["TORCHELASTIC_RUN_ID"]  # which has begun it, too
    is_new = world.first(lambda: not run.has_description())
    if not is_new:
        world.first(lambda: _check_resumable(run, config, seed, fingerprints, resume=resume))
    of_trees: dict[str, Any] = {"device": device, "data": data, "columns": columns} if isinstance(config, RunConfig) else {}
    make = partial(prepare, run, config, seed, quiet=quiet, on_epoch=on_epoch, world=world, **of_trees)
    training = make() if is_new else None
    if training is not None and world.is_first:
        files, environment = training.objective.describe()
        environment = {**describe_environment(device), **environment}
        environment["data"] = environment.get("data", {}) | fingerprints
        run.create(config, seed, files, environment)
    with ExitStack() as stack:
        world.first(lambda: stack.enter_context(locked(run.folder, wait=world.size == 1)))
        is_done, is_begun = world.first(lambda: (run.done.exists(), run.last.exists()))
        if is_done:
            logger.info("%s is done already", run.folder, extra={"run": run.folder.name})
            return run
        if training is None or is_begun:  # another process may have trained it meanwhile
            training = make()
        if world.is_first:
            _log_into(run, stack)
        if is_begun or not is_new:
            world.first(partial(_record_resumption, run, training.progress.epoch, device))
        training.train()
    return run


def prepare(
    run: Run,
    config: Named,
    seed: int,
    *,
    quiet: bool = False,
    on_epoch: OnEpoch | None = None,
    world: World = ALONE,
    **of_trees: Any,
) -> Training:
    """Return the training of a run as its folder has it, or from the beginning. Arguments as for `start`; of_trees: device,
    data and columns."""
    started = time.process_time()

    def saved() -> tuple[Checkpoint | None, dict[str, Any], list[dict[str, Any]]]:
        checkpoint = read_weights(run.last) if run.last.exists() else None
        return checkpoint, run.environment if run.has_description() else {}, run.read_times()

    checkpoint, environment, times = world.first(saved)
    objective: Objective
    if isinstance(config, RunConfig):
        objective = TreeObjective(run, config, seed, environment, goes_on=checkpoint is not None, world=world, **of_trees)
    elif isinstance(config, TextConfig):
        objective = TextObjective(run, config, seed)
    elif isinstance(config, TransductionConfig):
        objective = TransductionObjective(run, config, seed)
    else:
        assert isinstance(config, StreamConfig)
        objective = StreamObjective(run, config, seed)
    training = Training(objective, checkpoint, times, quiet=quiet, on_epoch=on_epoch, world=world, started=started)
    if world.size > 1 and isinstance(objective, TreeObjective):
        weights = (parameter.detach().cpu().numpy().tobytes() for parameter in objective.model.parameters())
        world.check_same("training equations or weights", *objective.train_set.contents(), *weights)
    return training


def compute_in_float32() -> None:
    """Let a GPU compute float32 products in float32, in this process.

    By default cuDNN's recurrent nets and the memory-efficient attention round them to ten bits (TF32), and the models of trees
    would be compared with baselines of less precision.
    """
    # On an H100, LSTM, RNN and Transformer differed from the CPU by 5e-4, 7e-4 and 1.6e-4 with TF32, and differ by
    # 3.6e-6, 3.9e-6 and 1.6e-7 without.
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.enable_mem_efficient_sdp(False)


def _check_inputs(config: Named, device: str, data: DataSets) -> None:
    """Raise ConfigurationError for data sets that a run cannot use, and for a device that is not available to it."""
    kind, fault = type(config).__name__, ""
    wrong = [name for name, given in data.items() if name not in ("train", "validation") or not isinstance(given, TreeDataset)]
    if not isinstance(config, RunConfig):
        if device != "cpu" or data:
            fault = f"A {kind} is trained on the CPU, on the data that it names."
        elif processes_of_run() > 1:
            fault = f"A {kind} is trained by one process. Start it without torchrun."
    elif device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
        fault = f"The device {device!r} is not available here. Use --device cpu."
    elif device != "cpu" and config.engine == "topo" and not _dgl.has_cuda():
        fault = f"DGL {_dgl.VERSION} is built without CUDA, which engine = 'topo' needs on a GPU. Set engine = 'levels'."
    elif wrong:
        fault = f"data{wrong} is not allowed. Pass TreeDatasets under the keys 'train' and 'validation'."
    elif data and config.data.percent < 100:
        fault = "'data.percent' applies to the configuration's files only. Pass a smaller TreeDataset."
    if fault:
        raise ConfigurationError(fault)


def _check_resumable(run: Run, config: Named, seed: int, fingerprints: dict[str, str], *, resume: bool) -> None:
    """Raise ConfigurationError unless a run that exists can go on with what is the same as before.

    fingerprints: of the data sets that were passed, by their names in environment.json.
    """
    recorded = {name: value for name, value in run.environment.get("data", {}).items() if name.startswith("given ")}
    fault = ""
    if type(run.any_config) is not type(config) or run.any_config.hash != config.hash or run.seed != seed:
        pairs = ((run.any_config, run.seed), (config, seed))
        before, now = ({**plain_data.flat(values), "seed": number} for values, number in pairs)
        differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        values = "; ".join(f"{key} {before.get(key)!r}, now {now.get(key)!r}" for key in differing)
        fault = f"holds a run of another configuration ({values}). Choose another --output-dir, or another name."
    elif not resume:
        fault = "exists. Continue with --resume, or choose another --output-dir."
    elif recorded != fingerprints:
        fault = "was begun with other data sets. Pass the same ones, or choose another folder."
    if fault:
        raise ConfigurationError(f"{run.folder} {fault}")
    check_unchanged(run)


def _log_into(run: Run, stack: ExitStack) -> None:
    """Also write log records of this run, and those of no run, into the run's log file, until the stack is closed."""
    try:
        handler = logging.FileHandler(run.log)
    except OSError as error:
        raise OutputError(f"{run.log} cannot be written: {error.strerror}.") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.addFilter(lambda record: getattr(record, "run", run.folder.name) == run.folder.name)
    logger.addHandler(handler)
    stack.callback(handler.close)
    stack.callback(logger.removeHandler, handler)


def _record_resumption(run: Run, epochs: int, device: str) -> None:
    """Warn if a run goes on with another commit, device or version than before, and add them to its environment.

    epochs: those that are complete.
    """
    # Rejected: to refuse. Runs of two machines may share a table, which says so.
    begun = Run(run.folder).environment  # another process may have trained the run since `run` has read it
    environment, changes = with_resumption(begun, epochs, device)
    if changes:
        logger.warning(GOES_ON_ELSEWHERE, run.folder, changes)
        run.write_environment(environment)


def check_unchanged(run: Run) -> None:
    """Raise ConfigurationError when a data file of a run has changed since. Files that no longer exist are ignored."""
    for name, checksum in run.environment.get("data", {}).items():
        path = find_data(name)
        if path.is_file() and sha256(path) != checksum:
            raise ConfigurationError(f"{name} has changed since {run.folder} was started. Choose another --output-dir.")


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise ConfigurationError for a negative seed, or one given twice."""
    if min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ConfigurationError(f"Seeds are whole numbers from 0 on, each given once; found {', '.join(map(str, seeds))}.")
