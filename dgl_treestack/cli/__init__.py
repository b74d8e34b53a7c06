"""`treestack`: one file per command. Only these and `inspection.table.describe` print.

Heavy imports are inside the commands, so that `--help` is fast.
"""

import errno
import logging
import sys
from collections.abc import Callable
from typing import Any

import tyro

from dgl_treestack import __version__
from dgl_treestack.cli.audit import audit
from dgl_treestack.cli.cells import cells
from dgl_treestack.cli.complete import complete
from dgl_treestack.cli.doctor import doctor
from dgl_treestack.cli.evaluate import evaluate
from dgl_treestack.cli.generate import generate
from dgl_treestack.cli.import_authors import import_authors
from dgl_treestack.cli.inspect import inspect
from dgl_treestack.cli.languages import languages
from dgl_treestack.cli.plot import plot
from dgl_treestack.cli.predict import predict
from dgl_treestack.cli.report import report
from dgl_treestack.cli.reproduce import reproduce
from dgl_treestack.cli.sweep import sweep
from dgl_treestack.cli.train import train
from dgl_treestack.cli.verify import verify
from dgl_treestack.errors import TreestackError
from dgl_treestack.processes import processes_of_run

DESCRIPTION = "Recursive neural networks with differentiable stacks, on batched DGL graphs of equations and other trees."
COMMANDS: tuple[Callable[..., Any], ...] = (
    *(doctor, cells, languages, generate, audit, inspect, train, sweep, reproduce),
    *(evaluate, predict, verify, complete, import_authors, plot, report),
)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 a check found a problem, 2 bad input, 130 and 143 stopped and saved."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(__version__)
        sys.exit(0)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    if processes_of_run() > 1 and arguments[:1] != ["train"]:
        print("error: torchrun trains a run over several processes: ... -m dgl_treestack train CONFIG.", file=sys.stderr)
        sys.exit(2)
    try:
        app = tyro.extras.SubcommandApp()
        for command in COMMANDS:
            app.command(name=command.__name__.replace("_", "-"))(command)
        sys.exit(app.cli(prog="treestack", description=DESCRIPTION, args=arguments))
    except TreestackError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except (MemoryError, OSError, ImportError, RuntimeError) as error:
        lacking = _lacking(error)
        if not lacking:
            raise
        print(f"error: {lacking}", file=sys.stderr)
        sys.exit(2)


def _lacking(error: Exception) -> str:
    """Return what the machine lacks, from an error that says so, or ''."""
    words = ("not enough memory", "out of memory", "can't allocate memory", "cannot allocate memory", "failed to map segment")
    if isinstance(error, MemoryError) or any(word in str(error).lower() for word in words):
        return "There is not enough memory. Use smaller batches, fewer --jobs, or a machine with more."
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"Too many files are open ({error.filename}). Raise the limit, `ulimit -n 1024`, or use fewer --jobs."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
        return f"{error.filename or 'A file'} cannot be written: {error.strerror}. Choose another place."
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"The path {str(error.filename)[:60]}... is too long for a file. Give a shorter one."
    return ""
