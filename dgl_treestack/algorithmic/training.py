"""Training restarts on a task: streams of growing sequences, then, for stacks and lists, rounding. Tests of restarts on
sequences of every size: with memories emptied before each, or as one stream."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack._torch import numpy_generator
from dgl_treestack.algorithmic.learner import AutogradLearner, Chunk, Net, StackLearner
from dgl_treestack.algorithmic.tasks import SequenceTask
from dgl_treestack.runs.sequence_configuration import StreamRecipe
from dgl_treestack.sequence import ActingCell, StackRNN

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
def entropy(task: SequenceTask, net: Net, seed: int) -> Tensor:
    """Return the mean (R,) of -log10 of the probability of the next token, in 16 new streams of 20 sequences of sizes 2 to 19.

    Only scored tokens count if the task trains on them only. A mean that is not finite is NO_NUMBER.
    """
    generator, drawn = numpy_generator(seed, f"{task.name}, validation"), list[tuple[list[int], list[bool]]]()
    for _ in range(16):
        stream, counted = [task.start], [False]
        for _ in range(20):
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


PROTOCOLS = ("emptied", "stream")
TOLERANCE = 1.01  # a stack is unused if the entropy without it is at most this multiple of the entropy with it
TRACED = 6  # size of the traced sequence


@contextmanager
def tested_as(net: Net, *, hard: bool, capacity: int) -> Iterator[None]:
    """Within the context, change the capacity of memories and, if hard, take only the most probable action. No effect on cells
    without actions."""
    cell = net.cell
    if not isinstance(cell, ActingCell):
        yield
        return
    before = cell.hard, cell.capacity
    cell.hard = hard
    cell.resize(capacity * cell.sides)
    try:
        yield
    finally:
        cell.hard = before[0]
        cell.resize(before[1])


@torch.no_grad()
def share_correct(task: SequenceTask, net: Net, sizes: Sequence[int], protocol: str, seed: int, *, repeats: int = 1) -> Tensor:
    """Return the share (R, sizes) of sequences of a size whose scored tokens are all predicted, among `repeats` of every size.

    emptied: memories are emptied before every sequence, and the task's `start` is read before its first symbol. stream: all
    sequences follow one another, from the smallest size on, and memories are emptied once.
    """
    generator = numpy_generator(seed, f"{task.name}, test, {protocol}")
    drawn = [[task.draw(n, generator) for _ in range(repeats)] for n in sizes]
    if protocol == "emptied":
        hits = [_predicted(task, net, [[sequence] for sequence in sequences]) for sequences in drawn]
        return torch.stack(hits, dim=1).double().mean(2)
    stream = [sequence for sequences in drawn for sequence in sequences]
    return _predicted(task, net, [stream]).unflatten(1, (len(drawn), -1)).double().mean(2)


def _predicted(task: SequenceTask, net: Net, streams: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Return whether every scored token of a sequence is the most probable one, (R, sequences) in the order of the streams.

    Streams of sequences are read in parallel. If the task scores the first token after a sequence, that token counts for the
    sequence before it; after the last sequence of a stream it is symbol 0.
    """
    length = max(sum(map(len, stream)) for stream in streams) + 2
    tokens = torch.zeros(length, len(streams), dtype=torch.int64)
    counts_for = torch.full((length, len(streams)), -1)  # the number of the sequence, -1 for tokens that are not scored
    count = 0
    for column, stream in enumerate(streams):
        tokens[0, column], end = task.start, 1
        for sequence in stream:
            begin, end = end, end + len(sequence)
            tokens[begin:end, column] = torch.tensor(sequence)
            counts_for[begin:end, column][torch.tensor(task.scored(sequence))] = count
            if task.next_is_scored:
                counts_for[end, column] = count
            count += 1
    scored = counts_for[1:] >= 0
    steps = scored.any(1)
    following = zip(states(net, tokens[:-1]), tokens[1:], steps.tolist(), strict=True)
    hits = torch.stack([net.read(h).argmax(-1) == targets for h, targets, counts in following if counts])  # (steps, R, B)
    misses = ~hits.movedim(1, 0)[:, scored[steps]]
    total = torch.zeros(len(misses), count).index_add_(1, counts_for[1:][scored], misses.float())
    return total == 0


@torch.no_grad()
def prune(task: SequenceTask, net: Net, seed: int) -> Tensor:
    """Remove unused stacks by setting the weights that read them to zero. Returns the number of remaining stacks (R,).

    Stacks are tried one after another in their order (the paper searches all subsets); a stack is removed when the entropy of
    its net rises by at most one per cent.
    """
    cell = net.cell
    assert isinstance(cell, StackRNN)
    columns = cell.P.unflatten(2, (cell.stacks, -1))
    entropy_before = entropy(task, net, seed)
    left = torch.full(cell.prefix, cell.stacks)
    for number in range(cell.stacks):
        weights = columns[:, :, number].clone()
        columns[:, :, number] = 0
        needed = ~(entropy(task, net, seed) <= TOLERANCE * entropy_before)
        columns[needed, :, number] = weights[needed]
        left -= (~needed).long()
    return left


@torch.no_grad()
def trace(task: SequenceTask, net: Net, restart: int, seed: int) -> list[dict[str, Any]]:
    """Return the actions of a restart in a sequence of size 6, starting from empty memories.

    Per input: the symbol, the most probable next one, and per stack that is read the shares of its actions and its top value
    after them.
    """
    cell = net.cell
    assert isinstance(cell, StackRNN)
    tokens = [task.start, *task.draw(TRACED, numpy_generator(seed, f"{task.name}, trace"))]
    is_read = cell.P[restart].unflatten(1, (cell.stacks, -1)).abs().sum((0, 2)) > 0
    lines, state = [], cell.start(1)
    for token in tokens:
        state, actions = cell.step(cell.drive(torch.full((*cell.prefix, 1), token)), state)
        stacks = []
        for number in torch.nonzero(is_read).flatten().tolist():
            shares = {name: round(actions[name][restart, 0, number].item(), 4) for name in cell.actions}
            top = round(state["stack"][restart, 0, number, 0, 0].item(), 4)
            stacks.append({"stack": number, **shares, "top": top})
        predicted = int(net.read(state["h"])[restart, 0].argmax())
        lines.append({"symbol": task.symbols[token], "next": task.symbols[predicted], "stacks": stacks})
    return lines
