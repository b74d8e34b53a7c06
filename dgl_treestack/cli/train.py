"""`treestack train`."""

import logging
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from dgl_treestack.cli._arguments import Cpus, Device, Gpus, Jobs, OnCluster, where
from dgl_treestack.cluster import CHILD_OF, Cluster, Command

Compile = Literal["auto", "on", "off"]
Place = Literal["auto", "memory", "disk"]


def train(
    configs: Annotated[Positional[tuple[str, ...]], arg(help="TOML files, or names such as configs/quickstart/tree_smu.toml.")],
    *,
    output_dir: Annotated[Path, arg(help="Where the run folders <name>-<seed> go.")] = Path("runs"),
    seed: Annotated[int, arg(help="Seed of all random draws of the run.")] = 0,
    seeds: Annotated[tuple[int, ...], arg(help="Several seeds, one run each, instead of --seed.")] = (),
    set: Annotated[tuple[str, ...], arg(help="Replace values: schedule.epochs=3 model.settings.stack_size=2.")] = (),
    device: Device = "cpu",
    compile: Annotated[
        Compile | None, arg(help="Native code: auto is for long runs. Default: what the configuration says.")
    ] = None,
    columns: Annotated[
        Place, arg(help="Where the prepared training set is; disk: beside its file, for more equations than fit into memory.")
    ] = "auto",
    jobs: Jobs = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    gpus_per_task: Gpus = 0.0,
    data: Annotated[
        Path | None, arg(help="For configs/language_model: the folder of the text, ptb.train.txt and the like in it.")
    ] = None,
    resume: Annotated[bool, arg(help="Continue runs that were stopped; skip finished ones.")] = False,
    quiet: Annotated[bool, arg(help="No progress bar and no log on the screen.")] = False,
) -> int:
    """Train models. Ctrl-C saves a checkpoint; --resume continues to the same numbers as a run that was never stopped."""
    from dgl_treestack.errors import ConfigurationError
    from dgl_treestack.processes import Interrupted, processes_of_run
    from dgl_treestack.training.start import check_seeds

    if not configs:
        example = "language_model/stack_rnn" if data else "quickstart/tree_smu"
        raise ConfigurationError(f"Name at least one configuration, such as configs/{example}.toml.")
    seeds = seeds or (seed,)
    check_seeds(seeds)
    if processes_of_run() > 1 and (data or jobs > 1 or cluster):
        raise ConfigurationError(
            "Under torchrun the runs are trained one after the other, on trees: no --jobs, --cluster or --data."
        )
    try:
        if data:
            if device != "cpu" or compile or columns != "auto" or jobs > 1 or cluster:
                raise ConfigurationError(
                    "Language models train on the CPU, one after another: no --device, --compile, --columns, --jobs, --cluster."
                )
            _train_language(configs, data, output_dir, seeds, set, resume=resume, quiet=quiet)
            return 0
        assignments = (*set, *([f"compile={compile}"] if compile else []))
        tasks = where(jobs, cluster, cpus_per_task, gpus_per_task)
        code = _train_trees(configs, output_dir, seeds, assignments, device, columns, tasks, resume=resume, quiet=quiet)
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        code = stop.exit_code
    if code in (130, 143) and CHILD_OF not in os.environ:  # another command continues its children itself
        command = shlex.join(["treestack", *sys.argv[1:], *([] if resume else ["--resume"])])
        print(f"To continue: {command if processes_of_run() == 1 else 'the same command, with --resume'}", file=sys.stderr)
    return code


def _train_trees(
    names: Sequence[str],
    output_dir: Path,
    seeds: Sequence[int],
    assignments: Sequence[str],
    device: str,
    columns: Place,
    jobs: int | Cluster,
    *,
    resume: bool,
    quiet: bool,
) -> int:
    """Train every configuration with every seed. Returns the exit code. Raises Interrupted."""
    import torch

    from dgl_treestack.processes import follow_parent, start_many
    from dgl_treestack.resources import find_config
    from dgl_treestack.runs import configuration
    from dgl_treestack.training.start import start

    follow_parent()
    configs = {name: configuration.override(configuration.load(find_config(name)), assignments) for name in names}
    runs = [(name, seed) for name in names for seed in seeds]
    if isinstance(jobs, Cluster) or (jobs > 1 and len(runs) > 1):
        flags = ["--output-dir", str(output_dir), "--device", device, "--columns", columns]
        flags += ["--set", *assignments] if assignments else []
        flags += ["--resume"] * resume + ["--quiet"] * quiet
        files = [(find_config(name), seed) for name, seed in runs]
        commands = [Command(("train", str(file), "--seed", str(seed), *flags), output_dir, (file,)) for file, seed in files]
        return start_many(commands, jobs)
    torch.set_num_threads(1)  # states are too small for a second thread to help, and runs share the machine
    if quiet:
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("dgl_treestack").setLevel(logging.INFO)
        logging.getLogger("dgl_treestack").propagate = False
    for name, seed in runs:
        start(configs[name], seed, output_dir, device=device, columns=columns, resume=resume, quiet=quiet)
    return 0


def _train_language(
    names: Sequence[str],
    data: Path,
    output_dir: Path,
    seeds: Sequence[int],
    assignments: Sequence[str],
    *,
    resume: bool,
    quiet: bool,
) -> None:
    """Train language models on a text, and print perplexities beside those of n-grams."""
    from dgl_treestack.errors import ConfigurationError
    from dgl_treestack.language import configuration, training
    from dgl_treestack.resources import find_config

    configs = [configuration.load(find_config(name), assignments) for name in names]
    if len({config.name for config in configs}) < len(configs):
        raise ConfigurationError("Two configurations have the same name, which names their folders.")
    perplexities = training.train(configs, data, output_dir, list(seeds), resume=resume, quiet=quiet)
    print(f"{'perplexity':<40}{'valid':>10}{'test':>10}")
    for label, result in perplexities:
        print(f"{label:<40}{result['valid']:>10.2f}{result['test']:>10.2f}")
