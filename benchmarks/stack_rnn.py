"""Training throughput of Stack RNNs on a^n b^n: tokens of all restarts per second of CPU time, windows of 50 tokens, whose
tokens are all computed at every update, or the new ones only.

The loss is over the last `new` tokens of a window; a token of a stream counts once per restart, although windows overlap. The
authors' program, with 40 hidden units and 10 stacks, trained 3,500 tokens per second, one net and one token at a time.

python -m benchmarks.stack_rnn [--restarts 8 32] [--new 1 10 50] [--json]
"""

from dataclasses import dataclass

import numpy as np
import torch
import tyro

from benchmarks.common import Row, in_turn, show, start
from dgl_treestack.algorithmic.learner import AutogradLearner, Net, StackLearner
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.training import Streams
from dgl_treestack.sequence import StackRNN

LEARNERS: dict[str, type[AutogradLearner] | type[StackLearner]] = {"new tokens": StackLearner, "windows": AutogradLearner}


@dataclass
class Settings:
    """hidden, stacks, capacity: of the nets. restarts: number of nets. new: tokens between updates. updates: per round."""

    restarts: tuple[int, ...] = (8, 32)
    new: tuple[int, ...] = (1, 10, 50)
    hidden: int = 40
    stacks: int = 10
    capacity: int = 80
    noop: bool = False
    updates: int = 30
    json: bool = False


def measure(settings: Settings, restarts: int, new: int) -> list[Row]:
    """Return a row per learner."""
    updates = {name: _updates(kind, settings, restarts, new) for name, kind in LEARNERS.items()}
    calls = {"new tokens": settings.updates, "windows": max(1, settings.updates // 2)}
    seconds = in_turn(updates, calls)
    rows = []
    for name, time in seconds.items():
        row: Row = {"cell": "stack_rnn", "engine": name, "restarts": restarts, "new": new, "ms_per_update": 1e3 * time}
        rows.append({**row, "tokens_per_s": restarts * new / time})
    return rows


def _updates(kind: type[AutogradLearner] | type[StackLearner], settings: Settings, restarts: int, new: int):  # type: ignore[no-untyped-def]
    shape = {"stacks": settings.stacks, "capacity": settings.capacity, "noop": settings.noop}
    net = Net(StackRNN(2, settings.hidden, restarts=restarts, **shape))
    net.reset_parameters(torch.Generator().manual_seed(0))
    streams = Streams(tasks()["anbn"], restarts, np.random.default_rng(0))
    streams.largest = 19
    learner, optimizer = kind(net), torch.optim.SGD(net.parameters(), 0.1)
    learner.begin()
    for _ in range(50 // new):  # fill the window
        learner.learn(streams.take(new))

    def update(_: int) -> None:
        learner.learn(streams.take(new))
        optimizer.step()

    return update


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    start()
    show([row for r in settings.restarts for new in settings.new for row in measure(settings, r, new)], settings.json)


if __name__ == "__main__":
    main()
