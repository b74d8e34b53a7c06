"""Whether restarts are right on sequences of every size: memories emptied before each, or one stream of all of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.learner import Net
from dgl_treestack.algorithmic.training import entropy, states
from dgl_treestack.sequence import ActingCell, StackRNN
from dgl_treestack.training.random import numpy_generator

PROTOCOLS = ("emptied", "stream")
TOLERANCE = 1.01  # a stack is unused when the entropy without it is at most so many times what it was


@contextmanager
def tested_as(net: Net, *, hard: bool, capacity: int) -> Iterator[None]:
    """Within, the likeliest actions are taken alone, or all as they are, and memories have other sizes."""
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
def right(task: Task, net: Net, sizes: Sequence[int], protocol: str, seed: int, *, repeats: int = 1) -> Tensor:
    """(R, sizes) the share of sequences of a size whose scored tokens are all predicted, `repeats` of every size.

    emptied: memories are emptied before every sequence, before whose first symbol the task's `start` is read. stream: all
    sequences one after another, from the smallest size on, memories emptied once.
    """
    generator = numpy_generator(seed, f"{task.name}, test, {protocol}")
    drawn = [[task.draw(n, generator) for _ in range(repeats)] for n in sizes]
    if protocol == "emptied":
        return torch.stack([_emptied(task, net, sequences) for sequences in drawn], dim=1)
    return _streamed(task, net, drawn)


def _emptied(task: Task, net: Net, sequences: Sequence[Sequence[int]]) -> Tensor:
    """(R,) the share of some sequences, side by side."""
    longest = max(map(len, sequences))
    tokens = torch.zeros(longest + 2, len(sequences), dtype=torch.int64)
    scored = torch.zeros(longest + 2, len(sequences), dtype=torch.bool)
    for column, sequence in enumerate(sequences):
        tokens[: len(sequence) + 1, column] = torch.tensor([task.start, *sequence])
        scored[1 : len(sequence) + 1, column] = torch.tensor(task.scored(sequence))
        scored[len(sequence) + 1, column] = task.next_is_scored
    return _all_right(net, tokens, scored).double().mean(1)


def _all_right(net: Net, tokens: Tensor, scored: Tensor) -> Tensor:
    """(R, B) whether every scored token (T, B) is the likeliest given those before it."""
    found = torch.ones(net.cell.restarts or 1, tokens.shape[1], dtype=torch.bool)
    for t, h in enumerate(states(net, tokens[:-1])):
        found &= (net.read(h).argmax(-1) == tokens[t + 1]) | ~scored[t + 1]
    return found


def _streamed(task: Task, net: Net, drawn: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    tokens, scored, owner = [task.start], [False], [0]
    every = [sequence for sequences in drawn for sequence in sequences]
    for number, sequence in enumerate(every):
        begins = task.next_is_scored and number > 0
        marks = task.scored(sequence)
        tokens += sequence
        scored += [begins or marks[0], *marks[1:]]
        owner += [number - begins, *[number] * (len(sequence) - 1)]
    tokens.append(0)
    scored.append(task.next_is_scored)
    owner.append(len(every) - 1)
    found = torch.ones(net.cell.restarts or 1, len(every), dtype=torch.bool)
    for t, h in enumerate(states(net, torch.tensor(tokens[:-1]).unsqueeze(1))):
        if scored[t + 1]:
            found[:, owner[t + 1]] &= net.read(h)[:, 0].argmax(-1) == tokens[t + 1]
    return found.unflatten(1, (len(drawn), -1)).double().mean(2)


@torch.no_grad()
def prune(task: Task, net: Net, seed: int) -> Tensor:
    """Take away stacks that a net can do without, one after another in their order (the paper searches all subsets), as long as
    its entropy does not rise by more than a per cent: what is read of them becomes nothing. Returns how many are left (R,)."""
    cell = net.cell
    assert isinstance(cell, StackRNN)
    columns = cell.P.unflatten(2, (cell.stacks, -1))
    least = entropy(task, net, seed)
    left = torch.full(cell.prefix, cell.stacks)
    for number in range(cell.stacks):
        kept = columns[:, :, number].clone()
        columns[:, :, number] = 0
        found = entropy(task, net, seed)
        needed = ~(found <= TOLERANCE * least)
        columns[needed, :, number] = kept[needed]
        left -= (~needed).long()
    return left


TRACED = 6  # size of the sequence that is traced


@torch.no_grad()
def trace(task: Task, net: Net, restart: int, seed: int) -> list[dict[str, Any]]:
    """What a restart does in a sequence of size 6, memories emptied before: per input the symbol, the likeliest next one, and
    per stack that is read the shares of its actions and the value on its top after them."""
    cell = net.cell
    assert isinstance(cell, StackRNN)
    tokens = [task.start, *task.draw(TRACED, numpy_generator(seed, f"{task.name}, trace"))]
    reads = cell.P[restart].unflatten(1, (cell.stacks, -1)).abs().sum((0, 2)) > 0
    found, state = [], cell.start(1)
    for token in tokens:
        state, actions = cell.step(cell.drive(torch.full((*cell.prefix, 1), token)), state)
        stacks = []
        for number in torch.nonzero(reads).flatten().tolist():
            shares = {name: round(actions[name][restart, 0, number].item(), 4) for name in cell.actions}
            top = round(state["stack"][restart, 0, number, 0, 0].item(), 4)
            stacks.append({"stack": number, **shares, "top": top})
        likeliest = int(net.read(state["h"])[restart, 0].argmax())
        found.append({"symbol": task.symbols[token], "next": task.symbols[likeliest], "stacks": stacks})
    return found
