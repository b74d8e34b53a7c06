"""Work in several processes, which end as one would expect, and do not get into each other's way."""

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
from pathlib import Path

from dgl_treestack.errors import OutputError

logger = logging.getLogger(__name__)

CHILD_OF = "TREESTACK_PARENT"  # in the environment of a command that another one has started: the number of its process


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """So many worker processes. Whatever ends the work, what is in hand is finished and the rest is cancelled.

    Ctrl-C reaches the parent alone, and where the parent is killed, so are its workers. Raises OutputError when a worker dies.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise OutputError("A worker process died: killed, or out of memory, then use fewer --jobs.") from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def follow_parent() -> None:
    """For a command that may be another's child: it is stopped, and saves, when the other is gone, however that ended."""
    if CHILD_OF in os.environ:
        threading.Thread(target=_stop_without, args=(int(os.environ[CHILD_OF]),), daemon=True).start()


def _stop_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A folder for one process at a time; others wait."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process works in %s; waiting for it", folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
