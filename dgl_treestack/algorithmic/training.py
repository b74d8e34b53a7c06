"""Training restarts on a task: a curriculum of growing sequences, then, for stacks and lists, rounding."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from tqdm.auto import tqdm

from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.curriculum import Curriculum
from dgl_treestack.algorithmic.learner import AutogradLearner, Learner, Net
from dgl_treestack.algorithmic.stack_learner import StackLearner
from dgl_treestack.algorithmic.stream import Streams
from dgl_treestack.sequence import ActingCell, StackRNN
from dgl_treestack.training.random import numpy_generator, torch_generator


@dataclass(frozen=True)
class Recipe:
    """How restarts are trained.

    updates: of `tokens` new tokens each. largest: sizes of sequences, reached after `curriculum` of the updates, linearly, or
    with a `goal` as `Curriculum` says. rate: the learning rate, kept for `steady` of the updates, then falling to a hundredth.
    segment: memories are emptied and new streams begin after so many updates. beta: rounding ends there, raised in `stages`
    from 1.2.
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
VALIDATED = range(2, 20)  # sizes of the sequences by which restarts are chosen
NO_NUMBER = 99.0  # the entropy of nets that have diverged
_FIRST_BETA, _LAST_RATE = 1.2, 0.01


def learner_for(net: Net) -> Learner:
    """The whole window by hand where that is known, else as the cell takes it back."""
    cell = net.cell
    known = isinstance(cell, StackRNN) and cell.recurrence == "stacks" and cell.width == 1 and cell.capacity
    return StackLearner(net) if known else AutogradLearner(net)


def train(task: Task, net: Net, recipe: Recipe, seed: int, *, quiet: bool = True) -> None:
    """Train restarts in place. The same seed draws the same sequences."""
    streams = Streams(task, net.cell.restarts or 1, numpy_generator(seed, f"{task.name}, {recipe.beta}"))
    learner = learner_for(net)
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[recipe.optimizer]
    optimizer = kind(net.parameters(), lr=recipe.rate)
    least, growing = max(task.smallest, 2), recipe.curriculum * recipe.updates
    curriculum = Curriculum(least, recipe.largest, growing, net.cell.restarts or 1, recipe.goal)
    for i in tqdm(range(recipe.updates), desc=task.title, disable=quiet or None, leave=False):
        streams.largest = curriculum.sizes
        _set_beta(net, recipe, i / recipe.updates)
        optimizer.param_groups[0]["lr"] = _rate(recipe, i / recipe.updates)
        if i % recipe.segment == 0:
            streams.begin()
            learner.begin()
        chunk = streams.take(recipe.tokens)
        curriculum.note(learner.learn(chunk), chunk.weights.sum(0))
        optimizer.step()
    _set_beta(net, recipe, 1.0)


def _rate(recipe: Recipe, done: float) -> float:
    falling = max(0.0, (done - recipe.steady) / (1 - recipe.steady))
    return float(recipe.rate * _LAST_RATE**falling)


def _set_beta(net: Net, recipe: Recipe, done: float) -> None:
    """In stages from 1.2 to the recipe's, each a fixed factor above the one before."""
    if recipe.stages > 1 and isinstance(net.cell, ActingCell):
        stage = min(recipe.stages - 1, math.floor(done * recipe.stages))
        net.cell.beta = _FIRST_BETA * (recipe.beta / _FIRST_BETA) ** (stage / (recipe.stages - 1))


def new_net(net: Net, seed: int) -> Net:
    """The same net with initial values of a seed."""
    net.reset_parameters(torch_generator(seed, "restarts"))
    return net


@torch.no_grad()
def entropy(task: Task, net: Net, seed: int, *, streams: int = 16, sequences: int = 20) -> Tensor:
    """(R,) mean of -log10 of the chance of the next token, over fresh streams of sequences of sizes 2 to 19; for a task of
    which only scored tokens are trained, over those. NO_NUMBER where that is none."""
    generator = numpy_generator(seed, f"{task.name}, validation")
    drawn = [_sequences(task, generator, sequences) for _ in range(streams)]
    length = min(len(tokens) for tokens, _ in drawn)
    tokens = torch.tensor([tokens[:length] for tokens, _ in drawn]).T
    weights = torch.tensor([weights[1:length] for _, weights in drawn], dtype=torch.float32).T
    total = torch.zeros(net.cell.restarts or 1)
    for t, h in enumerate(states(net, tokens[:-1])):
        chances = functional.log_softmax(net.read(h), -1)
        targets = tokens[t + 1].expand(chances.shape[:-1]).unsqueeze(-1)
        total -= (chances.gather(-1, targets).squeeze(-1) * weights[t]).sum(-1)
    return (total / math.log(10) / weights.sum()).nan_to_num(NO_NUMBER, NO_NUMBER)


def _sequences(task: Task, generator: np.random.Generator, count: int) -> tuple[list[int], list[bool]]:
    tokens, weights = [task.start], [False]
    for _ in range(count):
        drawn = task.draw(int(generator.choice(VALIDATED)), generator)
        tokens += drawn
        weights += task.scored(drawn) if task.only_scored else [True] * len(drawn)
    return tokens, weights


def states(net: Net, tokens: Tensor) -> Iterator[Tensor]:
    """h (R, B, H) after every token of streams that all restarts read alike: tokens (T, B)."""
    cell = net.cell
    state = cell.start(tokens.shape[1])
    for row in tokens:
        state, _ = cell.step(cell.drive(row.expand(*cell.prefix, -1)), state)
        yield state["h"]
