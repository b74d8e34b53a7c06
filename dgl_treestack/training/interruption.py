"""Ctrl-C and SIGTERM: finish the step, save, leave with the exit code that shells expect."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """Training stopped on a signal, after saving."""

    def __init__(self, number: int):
        self.exit_code = 128 + number
        super().__init__(f"Stopped by {signal.Signals(number).name}; saved.")


class Watch:
    """Remembers the first signal; a second one of the same kind stops the program at once."""

    def __init__(self, react: Callable[[int], None]) -> None:
        self.number, self.react = 0, react

    def note(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        signal.signal(number, signal.SIG_DFL)
        self.react(number)

    def check(self) -> None:
        """Raise Interrupted when a signal has come."""
        if self.number:
            raise Interrupted(self.number)


@contextmanager
def watch_signals(react: Callable[[int], None] = lambda number: None) -> Iterator[Watch]:
    """Within the block, SIGINT and SIGTERM are noted, and reacted to, rather than obeyed."""
    watch = Watch(react)
    before = {number: signal.signal(number, watch.note) for number in SIGNALS}
    try:
        yield watch
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
