"""Several seeds of one configuration in step, every step computed as one; see `dgl_treestack.model.stacked`."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress

import torch

from dgl_treestack.errors import TreestackError
from dgl_treestack.model.dataset import Batch
from dgl_treestack.model.stacked import Stacked
from dgl_treestack.training.interruption import Interrupted, watch_signals
from dgl_treestack.training.loop import Training, data_left_alone

Drawn = tuple[Batch, torch.Generator]


def train_together(trainings: Sequence[Training]) -> None:
    """`Training.train` of several at a time, each to its own end from wherever it stands; those with the same engine as one.

    Raises what any of them raises, after saving the others.
    """
    stacked: dict[tuple[Training, ...], Stacked] = {}
    with watch_signals() as watch, data_left_alone():
        going = {training: training.course(watch) for training in trainings}
        try:
            while drawn := _drawn(going):
                for engine in sorted({training.engine for training in drawn}):
                    alike = tuple(training for training in drawn if training.engine == engine)
                    if alike not in stacked:
                        stacked[alike] = Stacked([training.model for training in alike])
                    _step(stacked[alike], {training: drawn[training] for training in alike}, engine)
        except (Interrupted, TreestackError):
            for training in going:
                with suppress(TreestackError):  # one is enough; such a run goes on from its last checkpoint
                    training.save()
            raise
        finally:
            for course in going.values():
                course.close()


def _drawn(going: dict[Training, Generator[Drawn]]) -> dict[Training, Drawn]:
    """The next batch of each. Who has come to an end, good or bad, is dropped, having seen to itself."""
    found = {}
    for training in list(going):
        course = going.pop(training)
        drawn = next(course, None)
        if drawn is not None:
            found[training], going[training] = drawn, course
    return found


def _step(stacked: Stacked, drawn: Mapping[Training, Drawn], engine: str) -> None:
    batches, generators = zip(*drawn.values(), strict=True)
    outputs = stacked(batches, engine, generators)
    losses = [training.model.losses(*one) for training, one in zip(drawn, zip(outputs, batches, strict=True), strict=True)]
    for training in drawn:
        training.adam.zero()
    torch.stack([own.mean() for own in losses]).sum().backward()
    for training, output, own, batch in zip(drawn, outputs, losses, batches, strict=True):
        training.learn(output, own, batch)
