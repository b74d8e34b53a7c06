"""Sequences of the tasks, and what of them is determined."""

import re

import numpy as np
import pytest

from dgl_treestack.algorithmic.tasks import tasks

FORMS = {
    "anbn": r"(a+)(b+)",
    "anbncn": r"(a+)(b+)(c+)",
    "anbncndn": r"(a+)(b+)(c+)(d+)",
    "anb2n": r"(a+)(b+)",
    "anbmcnm": r"(a+)(b+)(c+)",
    "memorization": r"([ab]+)\|([ab]+)",
    "addition": r"([01]+)\+([01]+)=([01]+)\.",
}


def is_one(name, groups, n):
    counts = [len(group) for group in groups]
    return {
        "anbn": counts == [n, n],
        "anbncn": counts == [n] * 3,
        "anbncndn": counts == [n] * 4,
        "anb2n": counts == [n, 2 * n],
        "anbmcnm": counts[2:] == [n] and sum(counts[:2]) == n,
        "memorization": counts == [n, n] and groups[0] == groups[1][::-1],
    }[name]


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
            assert is_one(name, groups, n)
            assert marked == (groups[-1] if name == "memorization" else text[text.index("bc"[name == "anbmcnm"]) + 1 :])
    assert list(FORMS) == list(tasks())
    assert task.symbols[task.start] == {"memorization": "b", "addition": "."}.get(name, task.symbols[-1])
