"""The memories of cells: a stack and a queue, against Python's own."""

from collections import deque

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.cells.memory import stack
from dgl_treestack.cells.tree_queue import update

H = 3
numbers = st.floats(-3, 3, allow_nan=False, width=32)
sizes = st.integers(1, 6)


def one_hot(action):
    return [torch.full((1, 1), float(action == name), dtype=torch.float64) for name in stack.ACTIONS]


def test_shapes_are_checked_here():
    with pytest.raises(jaxtyping.TypeCheckError):
        stack.pop(torch.zeros(2, H))  # torch itself would accept it
    with pytest.raises(jaxtyping.TypeCheckError):
        stack.push(torch.zeros(2, 4, H), torch.zeros(3, H))


@given(st.lists(st.sampled_from(["push", "pop", "noop"]), max_size=12), st.integers(1, 6), st.floats(-1, 1))
def test_one_hot_actions_are_a_real_stack(actions, size, empty):
    real, soft = [], torch.full((1, size, H), empty, dtype=torch.float64)
    for i, action in enumerate(actions):
        value = torch.full((1, H), float(i + 2), dtype=torch.float64)
        soft = stack.update(soft, value, *one_hot(action), empty=empty)
        if action == "push":
            real = [i + 2.0, *real][:size]  # overflow: the bottom is lost
        elif action == "pop":
            real = real[1:]  # underflow: empty rows come in
        expected = [*real, *[empty] * size][:size]
        assert soft[0, :, 0].tolist() == expected


@pytest.mark.parametrize("actions", [2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_row_by_row_and_as_a_whole_give_the_same_numbers(size, actions, monkeypatch):
    stacks, value, gates = torch.randn(actions, 4, size, H), torch.randn(4, H), torch.rand(actions, 4, H)
    results = []
    for few in (0, 100):
        monkeypatch.setattr(stack, "FEW_ROWS", few)
        results.append(stack.update(list(stacks), value, *gates, empty=-0.5))
    assert torch.equal(*results)


@given(st.integers(1, 5), st.integers(0, 5), st.sampled_from(["", "push", "pop", "noop"]), st.integers(2, 3), st.floats(-1, 1))
def test_rows_and_actions_that_are_taken_away(size, kept, without, actions, empty):
    generator = torch.Generator().manual_seed(size)
    old, value = (torch.randn(2, *shape, H, generator=generator, dtype=torch.float64) for shape in ((size,), ()))
    gates = torch.rand(actions, 2, H, generator=generator, dtype=torch.float64) + 0.1
    with stack.limited(kept, without):
        limited = stack.update(old, value, *gates, empty=empty)
    names = stack.ACTIONS[:actions]
    expected_gates = gates.clone()
    if without in names:
        expected_gates[names.index(without)] = 0
        expected_gates *= gates.sum(0) / expected_gates.sum(0)
    expected = stack.update(old, value, *expected_gates, empty=empty)
    torch.testing.assert_close(limited[:, :kept], expected[:, :kept])
    assert (limited[:, kept:] == empty).all()
    below = old[:, 1] if size > 1 else empty
    top = gates[0] * value + gates[1] * below + (gates[2] * old[:, 0] if actions == 3 else 0)
    torch.testing.assert_close(stack.update(old, value, *gates, empty=empty)[:, 0], top), "no limits outside of the block"


@given(st.lists(st.tuples(st.sampled_from(stack.ACTIONS), numbers), max_size=20), sizes)
def test_one_hot_actions_are_a_real_queue(history, size):
    soft = filled = torch.zeros(1, size, 2, dtype=torch.float64)
    real: deque[float] = deque()
    for action, number in history:
        soft, filled = update(soft, filled, torch.full((1, 2), number, dtype=torch.float64), *one_hot(action))
        if action == "push" and len(real) < size:
            real.append(number)
        elif action == "pop" and real:
            real.popleft()
        assert soft[0, :, 0].tolist() == [*real, *[0.0] * (size - len(real))]
        assert filled[0, :, 0].tolist() == [1.0] * len(real) + [0.0] * (size - len(real))


@given(st.lists(numbers, min_size=3, max_size=3), st.lists(st.floats(0, 1), min_size=3, max_size=3), sizes)
def test_a_queue_never_holds_more_than_its_size(values, weights, size):
    soft = filled = torch.zeros(1, size, 1, dtype=torch.float64)
    gates = torch.softmax(torch.tensor(weights, dtype=torch.float64), 0).reshape(3, 1, 1)
    for number in values * 3:
        soft, filled = update(soft, filled, torch.full((1, 1), number, dtype=torch.float64), *gates)
        assert bool(((filled >= 0) & (filled <= 1 + 1e-12)).all())
        assert bool((filled[:, 1:] <= filled[:, :-1] + 1e-12).all()), "taken rows come first"
