"""Training restarts on a task: a curriculum of growing sequences, then, for stacks and lists, rounding."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional
from tqdm.auto import tqdm

from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.learner import AutogradLearner, Net
from dgl_treestack.algorithmic.stack_learner import StackLearner
from dgl_treestack.algorithmic.stream import Curriculum, Streams
from dgl_treestack.generators import numpy_generator
from dgl_treestack.sequence import ActingCell


@dataclass(frozen=True)
class Recipe:
    """How restarts are trained.

    updates: the number of updates, each with `tokens` new tokens. largest: the largest size of sequences, reached after a share
    `curriculum` of the updates, linearly, or with a `goal` as `Curriculum` says. rate: the learning rate, constant for a share
    `steady` of the updates, then falling to a hundredth. segment: the number of updates after which memories are emptied and
    new streams begin. beta: the sharpness of actions at the end of rounding, raised in `stages` from 1.2, each a fixed factor
    above the one before.
    """

    updates: int = 4000
    tokens: int = 10
    optimizer: Literal["sgd", "adam"] = "sgd"
    rate: float = 0.1
    largest: int = 19
    curriculum: float = 0.5
    goal: float = 0.0
    steady: float = 0.65
    segment: int = 20
    beta: float = 1.0
    stages: int = 1


ROUNDING = Recipe(updates=1000, rate=0.02, curriculum=0.0, beta=60.0, stages=20)
VALIDATED = range(2, 20)  # sizes of the sequences on which restarts are selected
NO_NUMBER = 99.0  # the entropy of nets that have diverged
_FIRST_BETA, _LAST_RATE = 1.2, 0.01


def train(task: Task, net: Net, recipe: Recipe, seed: int, *, quiet: bool = True) -> None:
    """Train restarts in place. The same seed draws the same sequences."""
    cell, restarts = net.cell, net.cell.restarts or 1
    learner = StackLearner(net) if StackLearner.supports(cell) else AutogradLearner(net)
    generator = numpy_generator(seed, f"{task.name}, {recipe.beta}")
    streams = Streams(task, restarts, generator)
    growing = recipe.curriculum * recipe.updates
    curriculum = Curriculum(max(task.smallest, 2), recipe.largest, growing, restarts, recipe.goal)
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[recipe.optimizer](net.parameters(), lr=recipe.rate)
    rounded = cell if recipe.stages > 1 and isinstance(cell, ActingCell) else None
    for i in tqdm(range(recipe.updates), desc=task.title, disable=quiet or None, leave=False):
        progress = i / recipe.updates
        if rounded is not None:
            stage = min(recipe.stages - 1, math.floor(progress * recipe.stages))
            rounded.beta = _FIRST_BETA * (recipe.beta / _FIRST_BETA) ** (stage / (recipe.stages - 1))
        falling = max(0.0, (progress - recipe.steady) / (1 - recipe.steady))
        optimizer.param_groups[0]["lr"] = recipe.rate * _LAST_RATE**falling
        if i % recipe.segment == 0:
            streams = Streams(task, restarts, generator)
            learner.begin()
        streams.largest = curriculum.sizes
        chunk = streams.take(recipe.tokens)
        curriculum.note(learner.learn(chunk), chunk.weights.sum(0))
        optimizer.step()
    if rounded is not None:
        rounded.beta = recipe.beta


@torch.no_grad()
def entropy(task: Task, net: Net, seed: int, *, streams: int = 16, sequences: int = 20) -> Tensor:
    """Return the mean (R,) of -log10 of the probability of the next token, over new streams of sequences of sizes 2 to 19.

    Only scored tokens count if the task trains on them only. A mean that is not finite is NO_NUMBER.
    """
    generator, drawn = numpy_generator(seed, f"{task.name}, validation"), list[tuple[list[int], list[bool]]]()
    for _ in range(streams):
        stream, counted = [task.start], [False]
        for _ in range(sequences):
            sequence = task.draw(int(generator.choice(VALIDATED)), generator)
            stream += sequence
            counted += task.scored(sequence) if task.only_scored else [True] * len(sequence)
        drawn.append((stream, counted))
    length = min(len(stream) for stream, _ in drawn)
    tokens = torch.tensor([stream[:length] for stream, _ in drawn]).T
    weights = torch.tensor([counted[1:length] for _, counted in drawn], dtype=torch.float32).T
    total = torch.zeros(net.cell.restarts or 1)
    for t, h in enumerate(states(net, tokens[:-1])):
        log_probabilities = functional.log_softmax(net.read(h), -1)
        targets = tokens[t + 1].expand(log_probabilities.shape[:-1]).unsqueeze(-1)
        total -= (log_probabilities.gather(-1, targets).squeeze(-1) * weights[t]).sum(-1)
    return (total / math.log(10) / weights.sum()).nan_to_num(NO_NUMBER, NO_NUMBER)


def states(net: Net, tokens: Tensor) -> Iterator[Tensor]:
    """Yield h (R, B, H) after every token of B streams (T, B), the same for all restarts."""
    cell = net.cell
    state = cell.start(tokens.shape[1])
    for row in tokens:
        state, _ = cell.step(cell.drive(row.expand(*cell.prefix, -1)), state)
        yield state["h"]
