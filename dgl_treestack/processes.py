"""Signals, child commands that end with their parent, process pools, and a lock on a folder."""

import fcntl
import logging
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from dgl_treestack.cluster import CHILD_OF, Cluster, Command, RayPool, exit_code, run_commands, start_command
from dgl_treestack.errors import ConfigurationError, OutputError

logger = logging.getLogger(__name__)

Jobs = int | Cluster  # where independent tasks run: in so many processes of this machine, or on a cluster
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """Training was stopped by a signal, after saving. exit_code: 128 + the number of the signal."""

    def __init__(self, number: int):
        self.exit_code = 128 + number
        super().__init__(f"Stopped by {signal.Signals(number).name}; saved.")


@dataclass
class Watch:
    """Records a signal; a second one of the same kind stops the program at once.

    children: processes to which SIGTERM is passed on; the terminal sends them Ctrl-C. number: the signal, 0 before any.
    """

    children: Sequence[subprocess.Popen[str]] = ()
    number: int = 0

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal: record it, restore the default handler, pass SIGTERM on to the children."""
        self.number = number
        signal.signal(number, signal.SIG_DFL)
        if number == signal.SIGTERM:
            for process in self.children:
                process.terminate()


@contextmanager
def watch_signals(children: Sequence[subprocess.Popen[str]] = ()) -> Iterator[Watch]:
    """Within the block, record SIGINT and SIGTERM instead of stopping. children: see `Watch`."""
    watch = Watch(children)
    previous = {number: signal.signal(number, watch.note) for number in SIGNALS}
    try:
        yield watch
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def processes_of_run() -> int:
    """Return how many processes `torchrun` has started to train a run together, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1))


def start_many(commands: Sequence[Command], jobs: Jobs) -> int:
    """Run `treestack` commands as processes of one thread, `jobs` at a time or on a cluster. Returns the largest exit code."""
    if isinstance(jobs, Cluster):
        return run_commands(commands, jobs)
    children: list[subprocess.Popen[str]] = []
    with watch_signals(children) as watch:

        def run(command: Command) -> int:
            if watch.number:
                return 128 + watch.number
            # because of the pipe children log lines, instead of drawing progress bars over each other
            with start_command(command.arguments) as process:
                children.append(process)
                for line in process.stderr or ():
                    logger.info(line.rstrip("\n"))
            return process.returncode

        # More jobs than processors waste time: three or four on two took twice the CPU time per epoch.
        with ThreadPoolExecutor(jobs) as pool:
            codes = list(pool.map(run, commands))
    return max(map(exit_code, codes), default=0)


def follow_parent() -> None:
    """Send this command SIGTERM, so that it saves and stops, when its parent command (`CHILD_OF`) has ended."""
    if CHILD_OF in os.environ:
        stop = partial(os.kill, os.getpid(), signal.SIGTERM)
        threading.Thread(target=_when_ended, args=(int(os.environ[CHILD_OF]), stop), daemon=True).start()


@contextmanager
def workers(jobs: Jobs) -> Iterator[Executor]:
    """Open a pool of `jobs` worker processes, or of a cluster. On exit, running tasks are finished and queued ones cancelled.

    Only the parent reacts to Ctrl-C. When the parent is killed, its workers exit. Raises OutputError when a worker dies.
    """
    if isinstance(jobs, Cluster):
        with RayPool(jobs) as cluster_pool:
            yield cluster_pool
        return
    context = multiprocessing.get_context("spawn")  # processes that were forked beside threads have hung
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise OutputError("A worker process died. It was killed or ran out of memory: use fewer --jobs.") from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Initialize a worker: the parent alone reacts to Ctrl-C, and the worker ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (parent := multiprocessing.parent_process()) is not None and parent.pid:
        threading.Thread(target=_when_ended, args=(parent.pid, partial(os._exit, 1)), daemon=True).start()


def _when_ended(parent: int, end: Callable[[], None]) -> None:
    """Wait, in a thread, until the parent of this process, a process id, has ended, then call `end`."""
    while os.getppid() == parent:  # a process without a parent gets another one
        time.sleep(0.5)
    end()


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a folder for this process; while another one holds the lock, wait, or raise ConfigurationError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # The kernel drops this lock with its process, so that a killed one leaves none behind, as a file would be.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise ConfigurationError(f"Another process works in {folder}. Start again when it has ended.") from None
            logger.info("another process works in %s; waiting for it", folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
