import json

import numpy as np
import pytest

from dgl_treestack.errors import DataError
from dgl_treestack.expression import Equation
from dgl_treestack.generate.grow import Grower
from dgl_treestack.generate.nodes import to_expression
from dgl_treestack.generate.pairs import PairMaker
from dgl_treestack.generate.rewrite import replay
from dgl_treestack.truth import judge


@pytest.fixture(scope="module")
def pairs():
    maker = PairMaker(Grower(np.random.default_rng(8)), {"swap": 0.4, "buried": 0.3, "false rule": 0.3})
    return [pair for depth in (3, 5, 8, 12) for pair in (maker.make(*maker.start(), depth=depth) for _ in range(8)) if pair]


@pytest.mark.slow
def test_a_derivation_leads_to_its_equation_through_equations_that_hold(pairs):
    kinds = set()
    assert len(pairs) > 18
    for pair in pairs:
        steps = list(replay(json.loads(json.dumps(pair.derivation))))
        assert steps[-1][1] == to_expression(pair.true.root, Equation)
        kinds |= {step[0] for step in pair.derivation}
    for pair in pairs[::3]:
        verdicts = {judge(equation).verdict for _, equation in replay(pair.derivation)}
        assert verdicts <= {"holds", "undefined"}
    assert kinds == {"start", "rewrite", "both", "combine"}


def test_steps_are_described():
    steps = [
        ["start", "same", "sin(x) = sin(x)"],
        ["both", "Add", "y", 1],
        ["rewrite", "circular:1>", 0, 0],
    ]
    described = list(replay(steps[:2]))
    assert described == [("t = t", described[0][1]), ("Add with y on both sides", described[1][1])]
    assert str(described[1][1]) == "sin(x) + y = sin(x) + y"


@pytest.mark.parametrize(
    "steps",
    [
        [["start", "same", "sin(x) = x"]],
        [["start", "sum:2", "sin(x) = sin(x)"]],
        [["start", "nothing:1", "x = x"]],
        [["both", "sin"]],
        [["start", "same", "x = x"], ["start", "same", "x = x"]],
        [["start", "same", "x = x"], ["rewrite", "sum:2>", 0, 0]],
        [["start", "same", "x = x"], ["rewrite", "sum:2>", 0, 7]],
        [["start", "same", "x = x"], ["rewrite", "sum:2>", 5, 0]],
        [["start", "same", "x = x"], ["combine", "Mul", "sum:2", "x = y", 0]],
        [["start", "same", "x = x"], ["leap"]],
        [["start", "same", "x = x"], []],
        [["start", "same", 3]],
        [[]],
        [["start"]],
        [["start", "same", "x = x"], ["both", "nope"]],
        [["start", "same", "x = x"], ["both", "Add"]],
        5,
    ],
)
def test_a_step_that_cannot_be_taken_is_one_error(steps):
    with pytest.raises(DataError, match="cannot be taken" if isinstance(steps, list) else "found int"):
        list(replay(steps))
