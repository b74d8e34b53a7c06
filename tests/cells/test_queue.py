from collections import deque

import torch
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.cells.memory import stack
from dgl_treestack.cells.tree_queue import update

numbers = st.floats(-3, 3, allow_nan=False, width=32)
sizes = st.integers(1, 6)
histories = st.lists(st.tuples(st.sampled_from(stack.ACTIONS), numbers), max_size=20)


def one_hot(action):
    return [torch.full((1, 1), float(action == name), dtype=torch.float64) for name in stack.ACTIONS]


def value_of(number, width=2):
    return torch.full((1, width), number, dtype=torch.float64)


@given(histories, sizes)
def test_one_hot_actions_are_a_real_queue(history, size):
    soft = filled = torch.zeros(1, size, 2, dtype=torch.float64)
    real: deque[float] = deque()
    for action, number in history:
        soft, filled = update(soft, filled, value_of(number), *one_hot(action))
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
        soft, filled = update(soft, filled, value_of(number, 1), *gates)
        assert bool(((filled >= 0) & (filled <= 1 + 1e-12)).all())
        assert bool((filled[:, 1:] <= filled[:, :-1] + 1e-12).all()), "taken rows come first"
