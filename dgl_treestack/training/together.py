"""Several seeds of one configuration in step, every step computed as one; see `dgl_treestack.model.stacked`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import torch

from dgl_treestack.errors import TreestackError
from dgl_treestack.model.dataset import Batch
from dgl_treestack.model.stacked import Stacked
from dgl_treestack.training.interruption import Interrupted, watch_signals
from dgl_treestack.training.loop import Training, frozen_heap


def train_together(trainings: Sequence[Training]) -> None:
    """Run `Training.train` of several trainings side by side, each from its own progress to its own end.

    In every round each training advances by one batch, and trainings with the same engine compute their batches as one graph.
    Raises the first error of any training, after saving the other ones.
    """
    stacks: dict[tuple[Training, ...], Stacked] = {}
    with watch_signals() as watch, frozen_heap():
        running = {training: training.steps(watch) for training in trainings}
        try:
            while running:
                pending: dict[Training, tuple[Batch, torch.Generator]] = {}
                for training in list(running):
                    steps = running.pop(training)  # a training that ends or raises in `next` has saved what it needs
                    if (step := next(steps, None)) is not None:
                        pending[training], running[training] = step, steps
                for engine in sorted({training.engine for training in pending}):
                    group = tuple(training for training in pending if training.engine == engine)
                    if group not in stacks:
                        stacks[group] = Stacked([training.model for training in group])
                    _step(stacks[group], {training: pending[training] for training in group}, engine)
        except (Interrupted, TreestackError):
            for training in running:
                with suppress(TreestackError):  # the error above is raised; this training resumes from an older checkpoint
                    training.save()
            raise
        finally:
            for steps in running.values():
                steps.close()


def _step(stack: Stacked, pending: Mapping[Training, tuple[Batch, torch.Generator]], engine: str) -> None:
    """Take one step of all trainings: one forward and backward pass for all, an optimizer step for each."""
    batches, generators = zip(*pending.values(), strict=True)
    outputs = stack(batches, engine, generators)
    losses = [training.model.losses(output, batch) for training, output, batch in zip(pending, outputs, batches, strict=True)]
    for training in pending:
        training.adam.zero()
    torch.stack([losses_of_run.mean() for losses_of_run in losses]).sum().backward()
    for training, output, losses_of_run, batch in zip(pending, outputs, losses, batches, strict=True):
        training.learn(output, losses_of_run, batch)
