"""Windows by hand against autograd: the same losses and gradients."""

import re

import numpy as np
import pytest
import torch

from dgl_treestack.algorithmic.learner import AutogradLearner, Net, StackLearner
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.training import Streams
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence import StackRNN

RESTARTS = 3


def stack_net(seed=0, **settings):
    net = Net(StackRNN(3, 6, stacks=2, capacity=12, restarts=RESTARTS, **settings)).double()
    net.reset_parameters(torch.Generator().manual_seed(seed))
    for parameter in net.parameters():
        parameter.data.mul_(6)
    return net


def gradients(net):
    return {name: parameter.grad.clone() for name, parameter in net.named_parameters()}


@pytest.mark.parametrize("noop", [False, True])
@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_by_hand_is_what_autograd_finds(noop, beta):
    """With weights that stay, activations kept from earlier are those of the window computed anew."""
    net = stack_net(noop=noop)
    net.cell.beta = beta
    streams = Streams(tasks()["anbmcnm"], RESTARTS, np.random.default_rng(1))
    streams.largest = 6
    hand, plain = StackLearner(net, window=20), AutogradLearner(net, window=20)
    plain.begin()
    for length in (5, 10, 20):
        hand.begin()
        plain.begin()
        for _ in range(6):
            chunk = streams.take(length)
            chunk.weights[::2] *= 0.5
            loss = hand.learn(chunk)
            by_hand = gradients(net)
            torch.testing.assert_close(loss, plain.learn(chunk), atol=1e-10, rtol=1e-10)
            for name, gradient in gradients(net).items():
                torch.testing.assert_close(by_hand[name], gradient, atol=1e-10, rtol=1e-8)


def test_error_signals_are_clipped_by_both(monkeypatch):
    net = stack_net()
    for parameter in net.parameters():
        parameter.data.mul_(8)
    chunk = Streams(tasks()["anbncn"], RESTARTS, np.random.default_rng(2)).take(30)
    chunk.weights.mul_(500)
    hand, plain = StackLearner(net, window=30), AutogradLearner(net, window=30)
    plain.begin()
    hand.learn(chunk)
    clipped = {"hand": gradients(net)}
    plain.learn(chunk)
    clipped["plain"] = gradients(net)
    monkeypatch.setattr("dgl_treestack.algorithmic.learner.CLIP", 1e30)
    for name, learner in (("hand", hand), ("plain", plain)):
        learner.begin()
        learner.learn(chunk)
        free = gradients(net)
        torch.testing.assert_close(clipped[name]["V"], free["V"], rtol=1e-8, atol=1e-8)
        for weight in ("cell.U", "cell.P"):
            assert clipped[name][weight].abs().max() < 0.7 * free[weight].abs().max(), f"{weight}, {name}"


def test_streams_are_sequences_without_gaps():
    task = tasks()["anbncn"]
    streams = Streams(task, 2, np.random.default_rng(0))
    streams.largest = 4
    first, second = streams.take(7), streams.take(40)
    assert first.inputs[0].tolist() == [2, 2], "the last symbol of the alphabet"
    assert torch.equal(first.targets[-1], second.inputs[0]) and torch.equal(second.inputs[1:], second.targets[:-1])
    tokens = torch.cat([first.inputs, second.inputs])[1:, 0].tolist()
    pieces = re.findall("a+[bc]*", "".join("abc"[token] for token in tokens))  # the last one is cut
    assert sum(map(len, pieces)) == 46 and len(pieces) > 3
    assert all(piece in ("abc", "aabbcc", "aaabbbccc", "aaaabbbbcccc") for piece in pieces[:-1])
    assert set(first.weights.flatten().tolist()) == {1.0}
    addition = Streams(tasks()["addition"], 1, np.random.default_rng(0))
    addition.largest = 5
    chunk = addition.take(60)
    text = "".join("+=.01"[target] for target in chunk.targets[:, 0])
    counted = re.sub(r"=([01]*\.?)", lambda found: "=" + "x" * len(found[1]), text)
    assert [symbol == "x" for symbol in counted] == chunk.weights[:, 0].bool().tolist()
    for _ in range(9):
        weights = addition.take(0).weights[:, 0]
        assert weights[-1] == 1 == weights.sum(), "up to the next token of an answer"


def test_a_net_whose_old_tokens_cannot_be_skipped_is_learned_by_autograd():
    for settings in ({"recurrence": "full"}, {"width": 2}, {"capacity": 0}, {"restarts": None}):
        assert not StackLearner.supports(StackRNN(3, 4, **{"restarts": 2, **settings}))
    with pytest.raises(ConfigurationError, match="do not fit"):
        StackLearner(stack_net(), window=5).learn(Streams(tasks()["anbncn"], 3, np.random.default_rng(0)).take(6))
