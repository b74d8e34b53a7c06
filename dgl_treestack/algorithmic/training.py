"""Training restarts on a task: streams of growing sequences, then, for stacks and lists, rounding."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack._torch import numpy_generator
from dgl_treestack.algorithmic.learner import AutogradLearner, Chunk, Net, StackLearner
from dgl_treestack.algorithmic.tasks import SequenceTask
from dgl_treestack.runs.sequence_configuration import StreamRecipe
from dgl_treestack.sequence import ActingCell

STRIDE = 200  # updates between two comparisons of a net's loss with the goal
VALIDATED = range(2, 20)  # sizes of the sequences on which restarts are selected
NO_NUMBER = 99.0  # the entropy of nets that have diverged
_FIRST_BETA, _LAST_RATE = 1.2, 0.01


class Streams:
    """Infinite streams of a task, without a gap between sequences. `largest`, one per stream, may be changed at any time: the
    size of a new sequence is drawn uniformly from the task's smallest size to `largest`.

    A stream begins with the task's `start`, as if a sequence had just ended.
    """

    def __init__(self, task: SequenceTask, restarts: int, generator: np.random.Generator):
        self.task, self.generator, self.largest = task, generator, [task.smallest] * restarts
        self.tokens: list[list[int]] = [[task.start] for _ in range(restarts)]
        self.counted: list[list[bool]] = [[False] for _ in range(restarts)]

    def take(self, length: int) -> Chunk:
        """Return the next tokens of all streams."""
        for tokens, counted, largest in zip(self.tokens, self.counted, self.largest, strict=True):
            while len(tokens) <= length:
                n = int(self.generator.integers(self.task.smallest, largest + 1))
                sequence = self.task.draw(n, self.generator)
                tokens += sequence
                counted += self.task.scored(sequence) if self.task.only_scored else [True] * len(sequence)
        rows = torch.tensor([tokens[: length + 1] for tokens in self.tokens]).T
        weights = torch.tensor([counted[1 : length + 1] for counted in self.counted], dtype=torch.float32).T
        for tokens, counted in zip(self.tokens, self.counted, strict=True):
            del tokens[:length], counted[:length]
        return Chunk(rows[:-1].contiguous(), rows[1:].contiguous(), weights.contiguous())


class Curriculum:
    """The largest size of every restart's sequences, in `sizes`, from `smallest` to `largest`.

    Without a goal all sizes grow linearly over `updates`. With a goal the size of each restart grows on its own, by one
    whenever its loss per weighted token was below the goal over the last 200 updates.
    """

    def __init__(self, smallest: int, largest: int, updates: float, restarts: int, goal: float = 0.0):
        self.smallest, self.largest, self.updates, self.goal = smallest, largest, updates, goal
        self.sizes = [smallest if goal or updates else largest] * restarts
        self.losses, self.counted, self.done = torch.zeros(restarts), torch.zeros(restarts), 0

    def note(self, losses: Tensor, counted: Tensor) -> None:
        """Record an update: the summed losses (R,) and the number of weighted tokens (R,)."""
        self.done += 1
        if not self.goal:
            share = min(1.0, self.done / self.updates) if self.updates else 1.0
            self.sizes = [round(self.smallest + share * (self.largest - self.smallest))] * len(self.sizes)
            return
        self.losses, self.counted = self.losses + losses, self.counted + counted
        if self.done % STRIDE == 0:
            reached = (self.losses < self.goal * self.counted).tolist()
            self.sizes = [min(size + ready, self.largest) for size, ready in zip(self.sizes, reached, strict=True)]
            self.losses, self.counted = torch.zeros_like(losses), torch.zeros_like(counted)


class Phase:
    """The training of restarts by one recipe, in segments: at the start of each, memories are empty and streams begin anew.

    The same seed draws the same sequences.
    """

    def __init__(self, task: SequenceTask, net: Net, recipe: StreamRecipe, seed: int):
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
            total += losses[losses.isfinite()].sum().item()  # without restarts that have diverged
            counted += weights[losses.isfinite()].sum().item()
        if segment == self.segments - 1 and recipe.stages > 1 and isinstance(cell, ActingCell):
            cell.beta = recipe.beta
        return total, round(counted)


@torch.no_grad()
def entropy(task: SequenceTask, net: Net, seed: int, *, streams: int = 16, sequences: int = 20) -> Tensor:
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
    # The restart of least entropy is chosen, so one that has diverged must have a number, and a large one.
    return (total / math.log(10) / weights.sum()).nan_to_num(NO_NUMBER, NO_NUMBER)


def states(net: Net, tokens: Tensor) -> Iterator[Tensor]:
    """Yield h (R, B, H) after every token of B streams (T, B), the same for all restarts."""
    cell = net.cell
    state = cell.start(tokens.shape[1])
    for row in tokens:
        state, _ = cell.step(cell.drive(row.expand(*cell.prefix, -1)), state)
        yield state["h"]
