"""Both sets of blanks: equations that hold, candidates in classes, which of them are right."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from independent_checker import Undefined, complaints, draw_points, value_at

from dgl_treestack.generate.blanks import VARIABLES, fills

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["completion", "completion-deep"])
def data(request, made):
    """The blanks, and the sets of candidates by file."""
    files = made(request.param).files
    return files["blanks"], {f"{name}.jsonl.gz": examples for name, examples in files.items() if name != "blanks"}


@pytest.fixture(scope="module")
def deep(made):
    files = made("completion-deep").files
    return [(example, files[example.certificate["candidates"].split(".")[0]]) for example in files["blanks"]]


def values(candidates, seed=11):
    """The values of candidates at points of the test's own, NaN where undefined."""
    rows = []
    for point in draw_points(seed):
        row = []
        for candidate in candidates:
            try:
                row.append(complex(value_at(candidate.equation, point)))
            except Undefined:
                row.append(complex(np.nan))
        rows.append(row)
    return np.array(rows).T


def largest_gap(a, b):
    """The largest relative gap between rows of values, over the points where both are defined; NaN without such a point."""
    with np.errstate(all="ignore"):
        gap = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
    gap[a == b] = 0.0
    return np.where(np.isnan(gap).all(axis=-1), np.nan, np.where(np.isnan(gap), -1.0, gap).max(axis=-1))


def variables(expression):
    return {text for _, kind, text in expression.leaves() if kind == "Symbol"}


def test_the_plan_is_kept(made, deep):
    blanks = made("completion").examples
    places = [(e.equation.depth, e.equation.heights[e.blank], e.blank < e.equation.ends[1]) for e in blanks]
    assert {place[0] for place in places} == set(range(8, 14)) and {place[1] for place in places} == {0, 1, 2}
    assert max(Counter(places).values()) == 2 and len(places) >= 68
    assert all(set(VARIABLES) >= variables(example.equation) for example in blanks)
    depths = Counter(candidate.equation.depth for candidate in made("completion").files["candidates"])
    assert depths[0] == 14 and depths[1] > 850 and depths[2] > 20 and max(depths) == 2
    cells = Counter((example.equation.heights[example.blank], len(variables(example.equation))) for example, _ in deep)
    assert cells == {(depth, count): 2 for depth in (1, 5, 11) for count in (1, 2)}
    assert all(8 <= example.equation.depth <= 14 for example, _ in deep)


def test_blanked_equations_are_true_and_the_truth_is_a_candidate_of_the_class_of_the_blank(data):
    blanks, sets = data
    assert {(example.label, example.certificate["verdict"]) for example in blanks} == {(1, "holds")}
    assert complaints(blanks) == [], "of a second opinion"
    for candidates in sets.values():
        assert len({candidate.equation for candidate in candidates}) == len(candidates) >= 150
        assert all(candidate.label is None for candidate in candidates)
    for example in blanks:
        classes = {candidate.equation: candidate.value_class for candidate in sets[example.certificate["candidates"]]}
        assert classes[example.equation.subtree(example.blank)] == example.value_class
        assert example.value_class in example.certificate["right"]


def test_neither_depth_nor_variables_nor_size_give_the_truth_away(deep):
    for example, candidates in deep:
        truth = example.equation.subtree(example.blank)
        assert all(candidate.equation.depth == truth.depth for candidate in candidates)
        assert all(variables(candidate.equation) <= variables(example.equation) for candidate in candidates)
        assert sum(variables(candidate.equation) == variables(truth) for candidate in candidates) > 5
        assert sum(abs(candidate.equation.size - truth.size) <= 4 for candidate in candidates) > 20
        assert sum(candidate.value_class in example.certificate["right"] for candidate in candidates) < 20
        filled = [example.equation.replace(example.blank, candidate.equation) for candidate in candidates]
        assert all(equation.left != equation.right for equation in filled), "none copies the other side"


def test_classes_are_right_at_other_points(data):
    for candidates in data[1].values():
        actual, first = values(candidates), {}
        for row, candidate in enumerate(candidates):
            head = first.setdefault(candidate.value_class, row)
            gap = largest_gap(actual[row], actual[head])
            assert not gap >= 1e-9, f"{candidate.equation} is not {candidates[head].equation}"
        heads = list(first.values())
        for i, row in enumerate(heads[1:], 1):
            gaps = largest_gap(actual[heads[:i]], actual[row])
            near = heads[int(np.argmin(np.where(np.isnan(gaps), 1.0, gaps)))]
            assert not (gaps <= 1e-7).any(), f"{candidates[row].equation} may be {candidates[near].equation}"


def test_right_classes_fill_and_others_do_not(data):
    rng, (blanks, sets) = np.random.default_rng(0), data
    for example in blanks[:: 3 if len(sets) == 1 else 1]:
        members = defaultdict(list)
        for candidate in sets[example.certificate["candidates"]]:
            members[candidate.value_class].append(candidate.equation)
        right, doubtful = example.certificate["right"], example.certificate["doubtful"]
        for name in right[:4]:
            assert fills(example.equation, example.blank, members[name][-1]).verdict == "holds"
        for name in doubtful[:4]:
            assert fills(example.equation, example.blank, members[name][0]).verdict in ("conditional", "undefined")
        for name in rng.choice(sorted(set(members) - {*right, *doubtful}), 8):
            assert fills(example.equation, example.blank, members[name][0]).verdict != "holds"
