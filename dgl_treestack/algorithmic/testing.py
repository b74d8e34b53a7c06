"""Tests of restarts on sequences of every size: with memories emptied before each, or as one stream."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dgl_treestack._torch import numpy_generator
from dgl_treestack.algorithmic.learner import Net
from dgl_treestack.algorithmic.tasks import SequenceTask
from dgl_treestack.algorithmic.training import entropy, states
from dgl_treestack.sequence import ActingCell, StackRNN

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
