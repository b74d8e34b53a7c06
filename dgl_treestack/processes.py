"""Process pools, commands that end with the command that started them, and a lock on a folder."""

import fcntl
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from dgl_treestack.errors import OutputError

logger = logging.getLogger(__name__)

CHILD_OF = "TREESTACK_PARENT"  # environment variable of a command started by another one: the process id of its parent


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of `jobs` worker processes. On leaving it, running tasks are finished and queued ones are cancelled.

    Ctrl-C reaches only the parent. When the parent is killed, its workers exit. Raises OutputError when a worker dies.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise OutputError("A worker process died: killed, or out of memory, then use fewer --jobs.") from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Initialize a worker: the parent alone reacts to Ctrl-C, and the worker ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def follow_parent() -> None:
    """Stop this command by SIGTERM, upon which it saves, when the command that started it (`CHILD_OF`) has ended."""
    if CHILD_OF in os.environ:
        threading.Thread(target=_end_with, args=(int(os.environ[CHILD_OF]),), daemon=True).start()


def _end_with(parent: BaseProcess | int) -> None:
    """Wait until the parent has ended, then end this process.

    parent: the process that opened a pool, whose workers exit at once; or the id of the process that started a command, which
    gets SIGTERM.
    """
    if isinstance(parent, int):
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        parent.join()
        os._exit(1)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; wait while another process holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process works in %s; waiting for it", folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
