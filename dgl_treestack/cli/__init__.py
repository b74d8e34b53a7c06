"""`treestack`: one file per command. Only these and `inspection.table.describe` print.

A command is imported when it is called, and its heavy imports are inside it. Arguments that several commands share have the
same name, meaning and help text everywhere.
"""

import errno
import importlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import tyro
from tyro.conf import arg

from dgl_treestack import __version__
from dgl_treestack.errors import ConfigurationError, TreestackError, unknown

if TYPE_CHECKING:
    from dgl_treestack.cluster import Cluster

DESCRIPTION = "Recursive neural networks with differentiable stacks, on batched DGL graphs of equations and other trees."
_HELP = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)  # no `--no-json`, no `{None}|PATH`
_NO_DEFAULTS = ("", "''", "None", "False")  # of which help says nothing
_EQUATION = re.compile(r"-(?!-|[\d.]+(?:[eE][+-]?\d+)?$)(?=.*[=(*/+^_ ]).+")  # begins with a minus, and is no option or number
# in the messages of errors of a machine without enough memory
_NO_MEMORY = ("not enough memory", "out of memory", "can't allocate memory", "cannot allocate memory", "failed to map segment")
COMMANDS = (
    *("doctor", "cells", "languages", "generate", "audit", "inspect", "train", "sweep", "reproduce"),
    *("evaluate", "predict", "verify", "complete", "import-authors", "plot", "report"),
)

Json = Annotated[bool, arg(name="json", help="Print JSON for programs instead of text for people.")]
Device = Annotated[str, arg(help="cpu or cuda; on cuda, the engine topo needs a DGL that is built for it.")]
Engine = Annotated[Literal["levels", "topo"], arg(help="The engine that runs the cell over a batch.")]
Precision = Annotated[Literal["float32", "float64"], arg(help="Floating-point type of the weights and states.")]
OptionalRun = Annotated[Path | None, arg(help="A run folder, whose model is used. Default: the model of the package.")]
On = Annotated[str, arg(help="A data file on which the runs were evaluated (treestack evaluate), in place of their test sets.")]
Jobs = Annotated[int, arg(help="How many runs to train at a time, each in a process with one thread.")]
OnCluster = Annotated[str, arg(name="cluster", help="Address of a Ray cluster, or auto: tasks run there, not in --jobs.")]
Cpus = Annotated[float, arg(help="Processors of the cluster that a task takes.")]
Gpus = Annotated[float, arg(help="GPUs of the cluster that a task takes.")]


def _command(name: str) -> Callable[..., Any]:
    """Return the function of a command, whose help shows the defaults of its options that say something."""
    name = name.replace("-", "_")
    command = getattr(importlib.import_module(f"dgl_treestack.cli.{name}"), name)
    default = arg(help_behavior_hint=lambda text: "" if text in _NO_DEFAULTS else f"(default: {text})")
    types = get_type_hints(command, include_extras=True)
    command.__annotations__ = {name: Annotated[hint, default] for name, hint in types.items() if name != "return"}
    return command


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 a check found a problem, 2 bad input, 130 and 143 stopped and saved."""
    # an argument that begins with a space is no option
    arguments = [f" {text}" if _EQUATION.match(text) else text for text in (sys.argv[1:] if arguments is None else arguments)]
    if arguments == ["--version"]:
        print(__version__)
        sys.exit(0)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and arguments[:1] != ["train"]:
        print("error: torchrun trains a run over several processes: ... -m dgl_treestack train CONFIG.", file=sys.stderr)
        sys.exit(2)
    try:
        if not arguments or arguments[0].startswith("-"):
            app = tyro.extras.SubcommandApp()
            for name in COMMANDS:
                app.command(name=name)(_command(name))
            sys.exit(app.cli(prog="treestack", description=DESCRIPTION, args=arguments, config=_HELP))
        name, *rest = arguments
        if name not in COMMANDS:
            raise ConfigurationError(unknown("command", name, COMMANDS))
        sys.exit(tyro.cli(_command(name), prog=f"treestack {name}", args=rest, config=_HELP))
    except TreestackError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except (MemoryError, OSError, ImportError, RuntimeError) as error:
        if isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY):
            lacking = "There is not enough memory. Use smaller batches, fewer --jobs, or a machine with more."
        elif isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            lacking = f"Too many files are open ({error.filename}). Raise the limit, `ulimit -n 1024`, or use fewer --jobs."
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
            lacking = f"{error.filename or 'A file'} cannot be written: {error.strerror}. Choose another place."
        elif isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            lacking = f"The path {str(error.filename)[:60]}... is too long for a file. Give a shorter one."
        else:
            raise
        print(f"error: {lacking}", file=sys.stderr)
        sys.exit(2)


def where(jobs: int, cluster: str, cpus_per_task: float, gpus_per_task: float = 0.0) -> "int | Cluster":
    """Return where independent tasks run: in `jobs` processes of this machine, or on a cluster. Raises ConfigurationError."""
    refuse_if({f"The number of jobs is {jobs}; at least one is needed.": jobs < 1})
    from dgl_treestack.cluster import Cluster

    return Cluster(cluster, cpus_per_task, gpus_per_task) if cluster else jobs


def refuse_if(broken_rules: dict[str, Any]) -> None:
    """Raise ConfigurationError with the first message whose condition is true."""
    for message, is_broken in broken_rules.items():
        if is_broken:
            raise ConfigurationError(message)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=1, default=str))
