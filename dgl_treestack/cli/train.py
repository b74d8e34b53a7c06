"""`treestack train`."""

import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from dgl_treestack.cli import Cpus, Device, Gpus, Jobs, OnCluster, refuse_if, where
from dgl_treestack.cluster import CHILD_OF, Cluster, Command
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import align
from dgl_treestack.processes import Interrupted, follow_parent, processes_of_run, start_many
from dgl_treestack.resources import find_config
from dgl_treestack.runs import configuration
from dgl_treestack.runs.sequence_configuration import TextConfig

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
    threads: Annotated[
        int, arg(help="Threads of native code; the numbers do not depend on them. 0: the cores that are free for a run.")
    ] = 0,
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
    from dgl_treestack.training.start import check_seeds

    example = "language_model/stack_rnn" if data else "quickstart/tree_smu"
    has_no_place = processes_of_run() > 1 and (data or jobs > 1 or cluster)
    broken_rules = {
        f"Name at least one configuration, such as configs/{example}.toml.": not configs,
        f"--threads must be at least 0, not {threads}.": threads < 0,
        "Under torchrun the runs are trained one after the other, on trees: no --jobs, --cluster or --data.": has_no_place,
    }
    refuse_if(broken_rules)
    seeds = seeds or (seed,)
    check_seeds(seeds)
    assignments = (*set, *([f"compile={compile}"] if compile else []), *([f"text={data}"] if data else []))
    options = {"device": device, "columns": columns, "resume": resume, "quiet": quiet}
    places = where(jobs, cluster, cpus_per_task, gpus_per_task)
    files = [find_config(name) for name in configs]
    loaded: list[Any] = [configuration.override(configuration.load_any(file), assignments) for file in files]
    for name, config in zip(configs, loaded, strict=True):
        if isinstance(config, TextConfig) and not config.text:
            raise ConfigurationError(f"{name}: it describes a language model. Give the folder of its text with --data.")
    two_of_a_name = "Two configurations have the same name, which names their folders."
    refuse_if({two_of_a_name: len({config.name for config in loaded}) < len(loaded)})
    runs = [(file, config, number) for file, config in zip(files, loaded, strict=True) for number in seeds]
    try:
        code = _train(runs, output_dir, assignments, places, threads, options)
        if data and not code:
            from dgl_treestack.experiments.language_model import ngram_perplexities, perplexities_of
            from dgl_treestack.language.corpus import WordCorpus
            from dgl_treestack.results.run_result import read_any

            perplexities = ngram_perplexities(WordCorpus.read(data))
            names_of_runs = [f"{config.name}-{number}" for _, config, number in runs]
            perplexities |= {name: perplexities_of(read_any(output_dir / name)) for name in names_of_runs}
            lines = [(label, f"{result['valid']:.2f}", f"{result['test']:.2f}") for label, result in perplexities.items()]
            print(align([("perplexity", "valid", "test"), *lines]))
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        code = stop.exit_code
    if code in (130, 143) and CHILD_OF not in os.environ:  # another command continues its children itself
        command = shlex.join(["treestack", *sys.argv[1:], *([] if resume else ["--resume"])])
        print(f"To continue: {command if processes_of_run() == 1 else 'the same command, with --resume'}", file=sys.stderr)
    return code


def _train(
    runs: Sequence[tuple[Path, Any, int]],
    output_dir: Path,
    assignments: Sequence[str],
    jobs: int | Cluster,
    threads: int,
    options: Mapping[str, Any],
) -> int:
    """Train runs, each a file, its configuration and a seed. options: of `start`. Returns the exit code. Raises Interrupted."""
    import torch

    from dgl_treestack.propagate import set_threads
    from dgl_treestack.training.start import start

    follow_parent()
    if isinstance(jobs, Cluster) or (jobs > 1 and len(runs) > 1):
        flags = ["--output-dir", str(output_dir), "--device", options["device"], "--columns", options["columns"]]
        flags += ["--set", *assignments] if assignments else []
        flags += ["--threads", str(threads or 1)]
        flags += ["--resume"] * options["resume"] + ["--quiet"] * options["quiet"]
        commands = [Command(("train", str(file), "--seed", str(seed), *flags), output_dir, (file,)) for file, _, seed in runs]
        return start_many(commands, jobs)
    set_threads(threads or (1 if CHILD_OF in os.environ else torch.get_num_threads()))
    torch.set_num_threads(1)  # states are too small for a second thread to help, and runs share the machine
    if options["quiet"]:
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("dgl_treestack").setLevel(logging.INFO)
        logging.getLogger("dgl_treestack").propagate = False
    for _, config, seed in runs:
        start(config, seed, output_dir, **options)
    return 0
