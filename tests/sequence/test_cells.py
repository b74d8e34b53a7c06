"""Sequence cells against the authors' program, an oracle of lists, and the same cells step by step."""

import random
from functools import partial

import pytest
import torch
from each_case import assert_raises, cases
from stack_rnn_golden import GOLDEN, of_the_program

from dgl_treestack import Equation, Example, Model
from dgl_treestack.cells.memory import stack
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.sequence import LSTM, RNN, ListRNN, RotaryTransformer, SequenceCell, StackRNN, VectorStackRNN
from dgl_treestack.sequence.transformer_encoder import rotate, sinusoidal

CELLS = {
    "rnn": lambda **more: RNN(3, 4, **more),
    "rnn_sigmoid": lambda **more: RNN(3, 4, activation="sigmoid", **more),
    "rnn_relu": lambda **more: RNN(3, 4, activation="relu", **more),
    "lstm": lambda **more: LSTM(3, 4, **more),
    "lstm_three_layers": lambda **more: LSTM(3, 4, layers=3, **more),
    "stack_rnn": lambda **more: StackRNN(3, 4, stacks=2, width=2, capacity=5, noop=True, recurrence="full", **more),
    "stack_rnn_one_stack": lambda **more: StackRNN(3, 4, stacks=1, depth=1, capacity=3, **more),
    "stack_rnn_no_recurrence": lambda **more: StackRNN(3, 4, stacks=1, capacity=3, recurrence="none", **more),
    "list_rnn": lambda **more: ListRNN(3, 4, lists=2, capacity=7, noop=True, **more),
    "vector_stack_rnn": lambda **more: VectorStackRNN(3, 4, width=2, **more),
}
BY_HAND = [name for name in CELLS if name not in ("list_rnn", "vector_stack_rnn")]


def built(name, **more):
    cell = CELLS[name](**more).double()
    cell.reset_parameters(torch.Generator().manual_seed(1))
    for parameter in cell.parameters():
        parameter.data.mul_(1 if getattr(cell, "linear", False) else 3)  # so that gates are open and shut; linear h would grow
    return cell


def draw(*shape, seed=2):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"noop={case['noop']},R={case['use_R']},hard={case['hard']}")
def test_stack_rnn_is_the_authors_program(case):
    cell, output = of_the_program(case)
    state = cell.start(1)
    for token, step in zip(case["tokens"], case["steps"], strict=True):
        state, signals = cell.step(cell.drive(torch.tensor([token])), state)
        results = {
            "h": state["h"][0],
            "a": torch.stack([signals[name][0] for name in cell.actions], dim=-1),
            "stack": state["stack"][0, :, :, 0],
            "y": torch.softmax(state["h"][0] @ output.T, -1),
        }
        for name, value in results.items():
            torch.testing.assert_close(value.detach(), torch.tensor(step[name], dtype=torch.float64), atol=1e-6, rtol=0)


def drawn_state(cell, count):
    return {field: draw(*value.shape, seed=4).sigmoid() for field, value in cell.start(count).items()}


def by_hand_and_recorded(cell, x, state, fields=(), clip=None):
    """Of h and these fields of the last state: all states and the gradients, of x first, by hand; compared with autograd's."""
    inputs = [x, *cell.parameters(), *(value for value in (state or {}).values() if value.requires_grad)]
    results = []
    for unroll in (cell.unroll, partial(SequenceCell.unroll, cell)):
        h, last = unroll(x, state, clip)
        total = sum((value * draw(*value.shape, seed=3)).sum() for value in (h, *(last[field] for field in fields)))
        results.append(([h, *last.values()], torch.autograd.grad(total, inputs, materialize_grads=True)))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    return results[0]


@pytest.mark.parametrize("restarts", [None, 3])
@pytest.mark.parametrize("name", BY_HAND)
def test_windows_by_hand_are_what_autograd_finds(name, restarts):
    cell = built(name, restarts=restarts)
    x, state = draw(7, *cell.prefix, 5, 3).requires_grad_(), drawn_state(cell, 5)
    (free, *_), (clipped, *_) = (by_hand_and_recorded(cell, x, state, clip=most)[1] for most in (1e30, 0.3))
    assert not torch.allclose(clipped, free, rtol=1e-3)


@pytest.mark.parametrize("from_start", [True, False])
@pytest.mark.parametrize("restarts", [None, 2])
@pytest.mark.parametrize("capacity", [0, 3, 30])
@pytest.mark.parametrize("name", [name for name in CELLS if "stack_rnn" in name])
def test_stacks_over_many_tokens_are_step_by_step_what_autograd_finds(name, capacity, restarts, from_start, monkeypatch):
    cell = built(name, restarts=restarts)
    cell.resize(capacity)
    cell.beta = 1.5
    x = draw(9, *cell.prefix, 2, 3).requires_grad_()
    state = None if from_start else {field: value.requires_grad_() for field, value in drawn_state(cell, 2).items()}
    states, _ = by_hand_and_recorded(cell, x, state, ("stack", "h"))
    monkeypatch.setattr("dgl_treestack.sequence.stack_rnn.PIECE", 4)
    with torch.no_grad():
        h, last = cell.unroll(x, state)
    torch.testing.assert_close([h, *last.values()], states)


def test_hard_actions_and_taken_rows_hold_over_many_tokens():
    cell, x = built("stack_rnn"), draw(9, 2, 3)
    soft, _ = cell.unroll(x)
    with stack.limited(rows=1):
        one_row, last = cell.unroll(x)
    assert (last["stack"][:, :, 1:] == cell.empty["stack"]).all() and not torch.allclose(one_row, soft)
    cell.hard = True
    assert torch.equal(cell.unroll(x)[0], SequenceCell.unroll(cell, x)[0]) and not torch.allclose(cell.unroll(x)[0], soft)


def test_what_is_not_computed_by_hand_goes_step_by_step():
    class Doubled(StackRNN):
        def step(self, drive, state):
            return super().step(2 * drive, state)

    cell, doubled = built("stack_rnn"), Doubled(3, 4, stacks=2, width=2, capacity=5, noop=True, recurrence="full").double()
    doubled.load_state_dict(cell.state_dict())
    x = draw(9, 2, 3)
    torch.testing.assert_close(doubled.unroll(x)[0], cell.unroll(2 * x)[0])
    with torch.autocast("cpu", torch.bfloat16):
        h, _ = cell.float().unroll(x.float())
    torch.testing.assert_close(h.float(), cell.unroll(x.float())[0], atol=0.05, rtol=0)


def test_a_state_with_too_few_rows_and_second_derivatives_are_errors():
    cell = built("stack_rnn")
    x = draw(9, 2, 3).requires_grad_()
    state = cell.start(2)
    assert_raises(ConfigurationError, "have 1 rows; h reads 2", cell.unroll, x, {**state, "stack": state["stack"][:, :, :1]})
    (gradient,) = torch.autograd.grad(cell.unroll(x)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="method `step` of a sequence cell"):
        gradient.sum().backward()


def test_growing_stacks_lose_nothing():
    small, large = (StackRNN(3, 4, stacks=2, capacity=capacity).double() for capacity in (0, 40))
    small.reset_parameters(torch.Generator().manual_seed(0))
    large.load_state_dict(small.state_dict())
    x = torch.randint(3, (12, 2))
    (h, state), (expected, full) = small.unroll(x), large.unroll(x)
    torch.testing.assert_close(h, expected)
    assert state["stack"].shape[2] == 14
    torch.testing.assert_close(state["stack"], full["stack"][:, :, :14])


def test_list_actions_are_those_of_a_list(monkeypatch):
    """One-hot actions against a Python list with a head: here the head stays and the list moves below it."""
    rng, steps = random.Random(0), 150
    items, position = [-1.0] * (4 * steps + 1), 2 * steps
    cell = ListRNN(3, 4, lists=1, capacity=len(items), noop=True)
    cell.reset_parameters(torch.Generator().manual_seed(0))
    state, head = cell.start(1), len(items) // 2
    for i in range(steps):
        action = rng.choice(["insert", "insert", "left", "right", "noop"])
        shares = tuple(torch.full((1, 1), float(name == action)) for name in cell.actions)
        monkeypatch.setattr(cell, "act", lambda total: (total, shares, torch.tensor([[float(i)]])))  # noqa: B023
        state, _ = cell.step(torch.zeros(1, 4), state)
        if action == "insert":
            position += 1
            items.insert(position, float(i))  # right of the head, which moves onto it
        else:
            position += {"left": -1, "right": 1, "noop": 0}[action]
        assert state["list"][0, 0, head - 20 : head + 21, 0].tolist() == items[position - 20 : position + 21]
    assert len(items) > 4 * steps + 50


def test_a_stack_of_vectors_is_a_list_of_rows_with_an_expected_value_of_three_outcomes():
    """A second transcription of the equations, row by row, for one sequence."""
    cell = built("vector_stack_rnn")
    weights = {name: value.detach() for name, value in cell.named_parameters()}
    U, R, P, A, D, b, c, d = (weights[name] for name in "URPADbcd")
    h, rows, x = torch.zeros(4).double(), [], draw(7, 1, 3)
    states, state = [], cell.start(1)
    for token in x[:, 0]:
        state, signals = cell.step(cell.drive(token.unsqueeze(0)), state)
        top = rows[0] if rows else torch.zeros(2).double()
        h = (U @ token + R @ h + P @ top + b[0]).clamp_min(0)
        push, pop, noop = torch.exp(A @ h + c[0]) / torch.exp(A @ h + c[0]).sum()
        padded = [D @ h + d[0], *rows, torch.zeros(2).double(), torch.zeros(2).double()]
        rows = [
            push * padded[i] + pop * padded[min(i + 2, len(padded) - 1)] + noop * padded[i + 1] for i in range(len(rows) + 1)
        ]
        states.append(h)
        torch.testing.assert_close(state["stack"][0, 0, : len(rows)].detach(), torch.stack(rows))
        torch.testing.assert_close(torch.stack([signals[name][0, 0] for name in stack.ACTIONS]), torch.stack([push, pop, noop]))
    torch.testing.assert_close(cell.unroll(x)[0][:, 0].detach(), torch.stack(states))


def test_attention_with_rotary_positions_depends_on_distances_alone():
    """A sequence moved is the same. The layer, which is that of encoders, is transcribed in test_encoders."""
    net = RotaryTransformer(3, 8, layers=1, heads=2).double()
    net.reset_parameters(torch.Generator().manual_seed(0))
    x, (layer,) = draw(6, 2, 3), net.layers.layers
    torch.testing.assert_close(net.unroll(x)[0], net.layers.norm(layer(net.embed(x.transpose(0, 1)))).transpose(0, 1))
    sine, cosine = sinusoidal(9, 4).double().unflatten(-1, (-1, 2)).unbind(-1)
    q, k = (rotate(vector.expand(9, 4), sine, cosine) for vector in (draw(4), draw(4, seed=3)))
    moved = [(q[t] * k[t + 2]).sum() for t in (0, 3, 6)]
    torch.testing.assert_close(moved, [moved[0]] * 3)


@pytest.mark.parametrize("name", CELLS)
def test_restarts_are_nets_of_their_own_and_an_unroll_goes_on_where_it_stopped(name):
    cell = built(name, restarts=3)
    x = torch.randint(3, (6, 3, 2), generator=torch.Generator().manual_seed(3))
    h, state = cell.unroll(x)
    for net in range(3):
        single = CELLS[name]().double()
        single.load_state_dict({key: value[net] for key, value in cell.state_dict().items()})
        vectors = torch.nn.functional.one_hot(x[:, net], 3).double()
        of_net = h[:, net], {field: value[net] for field, value in state.items()}
        for inputs in (x[:, net], vectors):
            torch.testing.assert_close(of_net, single.unroll(inputs))
    cell, x = built(name), draw(8, 2, 3)
    whole, last = cell.unroll(x)
    first, middle = cell.unroll(x[:3])
    second, end = cell.unroll(x[3:], middle)
    torch.testing.assert_close((torch.cat([first, second]), end), (whole, last))


@cases(
    (lambda: StackRNN(3, 4, recurrence="some"), "Unknown value for 'recurrence': 'some'"),
    (lambda: StackRNN(3, 4, stacks=0), "'stacks' is 0"),
    (lambda: StackRNN(3, 4, depth=3, capacity=2), "'capacity' is 2; it must be a whole number from 3"),
    (lambda: ListRNN(3, 4, capacity=3), "'capacity' is 3; it must be a whole number from 4"),
    (lambda: RNN(3, 0), "'hidden' is 0"),
    (lambda: RNN(3, 4, activation="step"), "Unknown value for 'activation'"),
    (lambda: LSTM(3, 4, layers=0), "'layers' is 0"),
    (lambda: VectorStackRNN(3, 4, width=0), "'width' is 0"),
    (lambda: RotaryTransformer(3, 12, heads=4), "no multiple of 2 times 4 heads"),
    (lambda: Model.build("rnn", 4, share="all"), "no weights per operator"),
    (lambda: Model.build("tree_transformer", 40), "no multiple of 2 branches"),
    (lambda: Model.build("tree_transformer", 64, steps=0), "'steps' is 0"),
    (lambda: Model.build("transformer", 8, heads=0), "it must be a whole number from 1"),
    (lambda: Model.build("lstm", 4, restarts=2), "'restarts' is no setting"),
    (lambda: Model.build("stack_rnn", 4, stack_size=3), "unexpected keyword argument 'stack_size'"),
    (lambda: Model.build("transfomer", 8), "Did you mean 'transformer'"),
    (lambda: Model.build("lstm", 4).prepare([Example(Equation.parse("x = 1.29"), 1, "a")]), r"Number 1.29 has no row"),
)
def test_settings_are_checked_and_an_encoder_has_no_row_for_a_number(make, message):
    assert_raises(DataError if "row" in message else ConfigurationError, message, make)
