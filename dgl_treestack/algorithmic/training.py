"""Training restarts on a task: a curriculum of growing sequences, then, for stacks and lists, rounding."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.learner import AutogradLearner, Net
from dgl_treestack.algorithmic.stack_learner import StackLearner
from dgl_treestack.algorithmic.stream import Curriculum, Streams
from dgl_treestack.generators import numpy_generator
from dgl_treestack.runs.sequence_configuration import Recipe
from dgl_treestack.sequence import ActingCell

VALIDATED = range(2, 20)  # sizes of the sequences on which restarts are selected
NO_NUMBER = 99.0  # the entropy of nets that have diverged
_FIRST_BETA, _LAST_RATE = 1.2, 0.01


class Phase:
    """The training of restarts by one recipe, in segments: at the start of each, memories are empty and streams begin anew.

    The same seed draws the same sequences.
    """

    def __init__(self, task: Task, net: Net, recipe: Recipe, seed: int):
        self.task, self.net, self.recipe, restarts = task, net, recipe, net.cell.restarts or 1
        self.learner = StackLearner(net) if StackLearner.supports(net.cell) else AutogradLearner(net)
        self.generator = numpy_generator(seed, f"{task.name}, {recipe.beta}")
        growing = recipe.curriculum * recipe.updates
        self.curriculum = Curriculum(max(task.smallest, 2), recipe.largest, growing, restarts, recipe.goal)
        self.optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[recipe.optimizer](net.parameters(), lr=recipe.rate)
        self.segments = math.ceil(recipe.updates / recipe.segment)

    def train(self, segment: int) -> tuple[float, int]:
        """Make the updates of a segment. Returns the sum of the losses of all restarts, and the number of weighted tokens."""
        recipe, cell = self.recipe, self.net.cell
        streams = Streams(self.task, cell.restarts or 1, self.generator)
        self.learner.begin()
        total, counted = 0.0, 0.0
        for update in range(segment * recipe.segment, min((segment + 1) * recipe.segment, recipe.updates)):
            progress = update / recipe.updates
            if recipe.stages > 1 and isinstance(cell, ActingCell):
                stage = min(recipe.stages - 1, math.floor(progress * recipe.stages))
                cell.beta = _FIRST_BETA * (recipe.beta / _FIRST_BETA) ** (stage / (recipe.stages - 1))
            falling = max(0.0, (progress - recipe.steady) / (1 - recipe.steady))
            self.optimizer.param_groups[0]["lr"] = recipe.rate * _LAST_RATE**falling
            streams.largest = self.curriculum.sizes
            chunk = streams.take(recipe.tokens)
            losses, weights = self.learner.learn(chunk), chunk.weights.sum(0)
            self.curriculum.note(losses, weights)
            self.optimizer.step()
            total, counted = total + losses.sum().item(), counted + weights.sum().item()
        if segment == self.segments - 1 and recipe.stages > 1 and isinstance(cell, ActingCell):
            cell.beta = recipe.beta
        return total, round(counted)


def train(task: Task, net: Net, recipe: Recipe, seed: int) -> None:
    """Train restarts in place."""
    phase = Phase(task, net, recipe, seed)
    for segment in range(phase.segments):
        phase.train(segment)


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
