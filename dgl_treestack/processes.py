"""Work in several processes, which end as one would expect."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from dgl_treestack.errors import OutputError


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
