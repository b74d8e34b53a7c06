"""Ctrl-C and SIGTERM: finish the step, save, exit with the code that shells expect."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """Training was stopped by a signal, after saving. exit_code: 128 + the number of the signal."""

    def __init__(self, number: int):
        self.exit_code = 128 + number
        super().__init__(f"Stopped by {signal.Signals(number).name}; saved.")


@dataclass
class Watch:
    """Records a signal; a second one of the same kind stops the program at once.

    children: processes that get SIGTERM too when it arrives; Ctrl-C reaches them by itself. number: the signal, 0 before any.
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

    def check(self) -> None:
        """Raise Interrupted when a signal has arrived."""
        if self.number:
            raise Interrupted(self.number)


@contextmanager
def watch_signals(children: Sequence[subprocess.Popen[str]] = ()) -> Iterator[Watch]:
    """Within the block, record SIGINT and SIGTERM instead of obeying them. children: see `Watch`."""
    watch = Watch(children)
    previous = {number: signal.signal(number, watch.note) for number in SIGNALS}
    try:
        yield watch
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
