"""Several seeds of one configuration in step, every step computed as one; see `dgl_treestack.stacked`."""

from collections.abc import Iterator, Sequence

import torch

from dgl_treestack.dataset import Batch
from dgl_treestack.errors import ConfigurationError, DivergenceError
from dgl_treestack.stacked import Stacked
from dgl_treestack.training.interruption import Interrupted, watch_signals
from dgl_treestack.training.loop import Training, data_left_alone

Drawn = tuple[Batch, torch.Generator]


def train_together(trainings: Sequence[Training]) -> None:
    """`Training.train` of several at a time, each to its own end from wherever it stands.

    Raises ConfigurationError where they do not compute alike, and what each of them raises, after saving the others.
    """
    if len({training.engine for training in trainings}) > 1:
        raise ConfigurationError("Some of these runs were begun with native code, others without. Go on without --stacked.")
    with watch_signals() as watch, data_left_alone():
        going = {training: training.course(watch) for training in trainings}
        stacked: dict[tuple[Training, ...], Stacked] = {}
        try:
            while drawn := _drawn(going):
                known = tuple(drawn)
                if known not in stacked:
                    stacked = {known: Stacked([training.model for training in known])}
                _step(stacked[known], drawn)
        except (Interrupted, DivergenceError):
            for training in going:
                training.save()
            raise


def _drawn(going: dict[Training, Iterator[Drawn]]) -> dict[Training, Drawn]:
    """The next batch of each. Those that have come to their end are dropped."""
    found = {}
    for training, course in list(going.items()):
        drawn = next(course, None)
        if drawn is None:
            del going[training]
        else:
            found[training] = drawn
    return found


def _step(stacked: Stacked, drawn: dict[Training, Drawn]) -> None:
    batches, generators = zip(*drawn.values(), strict=True)
    engine = next(iter(drawn)).engine
    outputs = stacked(batches, engine, generators)
    losses = [training.model.losses(*one) for training, one in zip(drawn, zip(outputs, batches, strict=True), strict=True)]
    for training in drawn:
        training.adam.zero()
    torch.stack([own.mean() for own in losses]).sum().backward()
    for training, output, own, batch in zip(drawn, outputs, losses, batches, strict=True):
        training.learn(output, own, batch)
