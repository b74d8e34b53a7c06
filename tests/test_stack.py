import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack import stack

H = 3


def one_hot(action):
    return [torch.full((1, 1), float(action == name), dtype=torch.float64) for name in ("push", "pop", "noop")]


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


def test_popping_after_pushing_returns_all_but_the_bottom():
    old, value = torch.randn(2, 4, H), torch.randn(2, H)
    assert torch.equal(stack.pop(stack.push(old, value))[:, :3], old[:, :3])


def test_gates_per_element_and_mixture():
    old, value = torch.randn(2, 4, H), torch.randn(2, H)
    gates = torch.softmax(torch.randn(3, 2, H), 0)
    mixed = stack.update(old, value, *gates)
    parts = (stack.push(old, value), stack.pop(old), old)
    assert torch.allclose(mixed, sum(g.unsqueeze(1) * p for g, p in zip(gates, parts, strict=True)))
    extremes = torch.stack(parts)
    assert (mixed <= extremes.amax(0) + 1e-6).all()
    assert (mixed >= extremes.amin(0) - 1e-6).all()


def test_read_is_a_weighted_sum_of_the_top_rows():
    rows, weights = torch.randn(2, 4, H), torch.rand(2, 2)
    assert torch.allclose(stack.read(rows, weights), weights[:, :1] * rows[:, 0] + weights[:, 1:] * rows[:, 1])


def test_shapes_are_checked_in_tests():
    with pytest.raises(Exception, match="Type-check error"):
        stack.push(torch.zeros(2, 4, H), torch.zeros(3, H))
