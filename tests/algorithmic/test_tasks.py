"""Sequences of the tasks, what of them is determined, and what counts as right."""

import re

import numpy as np
import pytest
import torch
from each_case import cases
from torch import nn

from dgl_treestack._torch import torch_generator
from dgl_treestack.algorithmic import training as testing
from dgl_treestack.algorithmic.learner import Net
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.training import NO_NUMBER, entropy
from dgl_treestack.sequence import SequenceCell, StackRNN

FORMS = {
    "anbn": r"(a+)(b+)",
    "anbncn": r"(a+)(b+)(c+)",
    "anbncndn": r"(a+)(b+)(c+)(d+)",
    "anb2n": r"(a+)(b+)",
    "anbmcnm": r"(a+)(b+)(c+)",
    "memorization": r"([ab]+)\|([ab]+)",
    "addition": r"([01]+)\+([01]+)=([01]+)\.",
}


@pytest.mark.parametrize("name", tasks())
def test_sequences_are_of_their_language(name):
    task, generator = tasks()[name], np.random.default_rng(0)
    for n in [*range(max(task.smallest, 2), 12), 30]:
        tokens = task.draw(n, generator)
        text = "".join(task.symbols[token] for token in tokens)
        groups = re.fullmatch(FORMS[name], text).groups()
        marked = "".join(symbol for symbol, scored in zip(text, task.scored(tokens), strict=True) if scored)
        if name == "addition":
            left, right, total = groups
            assert int(left, 2) + int(right, 2) == int(total[::-1], 2) and not total.endswith("0" * 2)
            assert n <= len(left) + len(right) <= n + 1 and marked == total + "."
        else:
            counts = [len(group) for group in groups]
            assert {
                "anbn": counts == [n, n],
                "anbncn": counts == [n] * 3,
                "anbncndn": counts == [n] * 4,
                "anb2n": counts == [n, 2 * n],
                "anbmcnm": counts[2:] == [n] and sum(counts[:2]) == n,
                "memorization": counts == [n, n] and groups[0] == groups[1][::-1],
            }[name]
            assert marked == (groups[-1] if name == "memorization" else text[text.index("bc"[name == "anbmcnm"]) + 1 :])
    assert list(FORMS) == list(tasks())
    assert task.symbols[task.start] == {"memorization": "b", "addition": "."}.get(name, task.symbols[-1])


A, B = 0, 1


class Counter(SequenceCell):
    """h counts the a and b of a sequence."""

    def __init__(self):
        super().__init__(2, 2, restarts=1)
        self.add("U", 2, 2)
        nn.init.zeros_(self.U)

    def drive(self, x):
        return x

    def step(self, drive, state):
        a, b = state["h"].unbind(-1)
        begins = (drive == A) & (b > 0)
        a, b = torch.where(begins, 0.0, a), torch.where(begins, 0.0, b)
        return {"h": torch.stack([a + (drive == A), b + (drive == B)], -1)}, {}


class Knows(nn.Module):
    """In place of `Net`: where it `errs` = (a seen, b seen), it says the other symbol."""

    def __init__(self, errs=None):
        super().__init__()
        self.cell, self.errs = Counter(), errs

    def read(self, h):
        a, b = h.unbind(-1)
        says_b = (b < a).float()
        if self.errs:
            says_b = torch.where((a == self.errs[0]) & (b == self.errs[1]), 1 - says_b, says_b)
        return torch.stack([1 - says_b, says_b], -1)


@pytest.mark.parametrize("protocol", testing.PROTOCOLS)
@cases(
    (None, []),
    ((5, 0), []),  # the first b is not determined
    ((5, 1), [5]),
    ((5, 4), [5]),
    ((5, 5), [5]),  # the first a of the next sequence is
    ((7, 2), [7]),
)
def test_one_error_is_seen_where_it_is(protocol, errs, wrong):
    shares = testing.share_correct(tasks()["anbn"], Knows(errs), range(2, 9), protocol, 0, repeats=2)
    assert shares.shape == (1, 7)
    assert [n for n, share in zip(range(2, 9), shares[0].tolist(), strict=True) if share < 1] == wrong


def test_nets_that_have_diverged_are_never_chosen():
    task = tasks()["anbn"]
    net = Net(StackRNN(2, 8, stacks=2, capacity=60, restarts=2))
    net.reset_parameters(torch_generator(0, "restarts"))
    net.V.data[0] = float("nan")
    entropies = entropy(task, net, 0)
    assert entropies[0] == NO_NUMBER > entropies[1] and int(entropies.argmin()) == 1
