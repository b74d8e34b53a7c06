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
from dgl_treestack.propagate.compiled.library import unavailable
from dgl_treestack.runs.sequence_configuration import StreamRecipe
from dgl_treestack.sequence import ActingCell, StackRNN

VALIDATED = range(2, 20)  # sizes of the sequences on which restarts are selected
NO_NUMBER = 99.0  # the entropy of nets that have diverged
_FIRST_BETA, _LAST_RATE = 1.2, 0.01
LEAST_RATE = 1e-5  # of restarts whose rates are halved; training ends below it, as in the authors' program


class Streams:
    """Infinite streams of a task, without a gap between sequences. The size of a new sequence is drawn uniformly from the
    task's smallest size to `largest`, which may be changed at any time.

    A stream begins with the task's `start`, as if a sequence had just ended.
    """

    def __init__(self, task: SequenceTask, restarts: int, generator: np.random.Generator):
        self.task, self.generator, self.largest = task, generator, task.smallest
        self.tokens: list[list[int]] = [[task.start] for _ in range(restarts)]
        self.counted: list[list[bool]] = [[False] for _ in range(restarts)]

    def take(self, length: int) -> Chunk:
        """Return the next tokens of all streams; of a single one with length 0, up to the next target with a weight."""
        for tokens, counted in zip(self.tokens, self.counted, strict=True):
            while len(tokens) <= length or not (length or True in counted[1:]):
                n = int(self.generator.integers(self.task.smallest, self.largest + 1))
                sequence = self.task.draw(n, self.generator)
                tokens += sequence
                counted += self.task.scored(sequence) if self.task.only_scored else [True] * len(sequence)
        length = length or self.counted[0].index(True, 1)
        rows = torch.tensor([tokens[: length + 1] for tokens in self.tokens]).T
        weights = torch.tensor([counted[1 : length + 1] for counted in self.counted], dtype=torch.float32).T
        for tokens, counted in zip(self.tokens, self.counted, strict=True):
            del tokens[:length], counted[:length]
        return Chunk(rows[:-1].contiguous(), rows[1:].contiguous(), weights.contiguous())


class Phase:
    """The training of restarts by one recipe, in segments: at the start of each, memories are empty and streams begin anew.

    The same seed draws the same sequences. Without a compiler for native code gradients come from autograd, whose last digits
    differ. With `halving`: `shares` (R,) are the rates of the restarts as parts of the recipe's, `least` (R,) their least
    entropies, and `best` the parameters that had those.
    """

    def __init__(self, task: SequenceTask, net: Net, recipe: StreamRecipe, seed: int):
        self.task, self.net, self.recipe, self.seed, restarts = task, net, recipe, seed, net.cell.restarts or 1
        is_native = StackLearner.supports(net.cell) and not unavailable()
        self.learner = StackLearner(net) if is_native else AutogradLearner(net)
        self.shares, self.least = torch.ones(restarts), torch.full((restarts,), math.inf)
        self.best = {name: parameter.detach().clone() for name, parameter in net.named_parameters()} if recipe.halving else {}
        self.generator = numpy_generator(seed, f"{task.name}, {recipe.beta}")
        self.optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[recipe.optimizer](net.parameters(), lr=recipe.rate)
        self.segments = math.ceil(recipe.updates / recipe.segment)

    def train(self, segment: int) -> tuple[float, int]:
        """Make the updates of a segment. Returns the sum of the losses of all restarts, and the number of weighted tokens."""
        recipe, cell = self.recipe, self.net.cell
        if recipe.halving and (self.shares * recipe.rate < LEAST_RATE).all():
            return 0.0, 0
        restarts, smallest = cell.restarts or 1, max(self.task.smallest, 2)
        streams = Streams(self.task, restarts if recipe.tokens else 1, self.generator)
        self.learner.begin()
        is_halved = bool((self.shares < 1).any())
        total, counted, is_last = torch.zeros(restarts), torch.zeros(restarts), segment == self.segments - 1
        for update in range(segment * recipe.segment, min((segment + 1) * recipe.segment, recipe.updates)):
            progress = update / recipe.updates
            if recipe.stages > 1 and isinstance(cell, ActingCell):
                stage = min(recipe.stages - 1, math.floor(progress * recipe.stages))
                cell.beta = _FIRST_BETA * (recipe.beta / _FIRST_BETA) ** (stage / (recipe.stages - 1))
            falling = 0.0 if recipe.halving else max(0.0, (progress - recipe.steady) / (1 - recipe.steady))
            self.optimizer.param_groups[0]["lr"] = recipe.rate * _LAST_RATE**falling
            grown = min(1.0, progress / recipe.curriculum) if recipe.curriculum else 1.0
            streams.largest = round(smallest + grown * (recipe.largest - smallest))
            chunk = streams.take(recipe.tokens)
            if not recipe.tokens:
                chunk = Chunk(*(values.repeat(1, restarts) for values in (chunk.inputs, chunk.targets, chunk.weights)))
            losses, weights = self.learner.learn(chunk), chunk.weights.sum(0)
            if is_halved:
                for parameter in self.net.parameters():
                    parameter.grad *= self.shares[:, None, None]  # type: ignore[operator]
            self.optimizer.step()
            total += losses
            counted += weights
        if recipe.halving and (is_last or (segment + 1) % recipe.halving == 0):
            self._validate(is_last or (segment + 1) * recipe.segment >= recipe.steady * recipe.updates)
        if is_last and recipe.stages > 1 and isinstance(cell, ActingCell):
            cell.beta = recipe.beta
        finite = total.isfinite()  # without restarts that have diverged
        return total[finite].sum().item(), round(counted[finite].sum().item())

    @torch.no_grad()
    def _validate(self, is_late: bool) -> None:
        """Note the best parameters; if it is late, halve the rates of restarts that are not better, and restore their best."""
        entropies = entropy(self.task, self.net, self.seed)
        is_better = entropies < self.least
        self.least = torch.where(is_better, entropies, self.least)
        for name, parameter in self.net.named_parameters():
            self.best[name][is_better] = parameter[is_better]
            if is_late:
                parameter.copy_(self.best[name])
        if is_late:
            self.shares[~is_better] /= 2


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
