from collections import defaultdict

import numpy as np
import pytest
from independent_checker import Undefined, complaint, draw_points, evaluate, steps

from dgl_treestack.data.formats import read
from dgl_treestack.expression import Equation
from dgl_treestack.generate.blanks import VARIABLES, fills
from dgl_treestack.generate.folds import canonical_key, in_partition
from dgl_treestack.generate.presets import Options
from dgl_treestack.generate.production import produce

pytestmark = pytest.mark.slow
OPTIONS = Options(seed=7, equations=72)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    produce("completion", OPTIONS, folder)
    return folder


@pytest.fixture(scope="module")
def blanks(folder):
    return list(read(folder / "blanks.jsonl.gz"))


@pytest.fixture(scope="module")
def candidates(folder):
    return list(read(folder / "candidates.jsonl.gz"))


def values(candidates, seed=11):
    """The values of candidates at points of the test's own, NaN where undefined."""
    rows = []
    for point in draw_points(seed):
        row = []
        for candidate in candidates:
            listed, (side, _) = steps(Equation.of(candidate.equation, candidate.equation))
            try:
                row.append(complex(evaluate(listed, point)[side]))
            except Undefined:
                row.append(complex(np.nan))
        rows.append(row)
    return np.array(rows).T


def largest_gap(a, b):
    """The largest relative gap between rows of values, over the points where both are defined."""
    with np.errstate(all="ignore"):
        gap = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
    gap[a == b] = 0.0
    return np.nanmax(np.where(np.isnan(gap), -1.0, gap), axis=-1)


def test_the_plan_is_kept(blanks):
    cells = defaultdict(int)
    for example in blanks:
        equation = example.equation
        assert example.label == 1 and example.fold == "test" and example.certificate["verdict"] == "holds"
        assert set(VARIABLES) >= {text for _, kind, text in equation.leaves() if kind == "Symbol"}
        cells[equation.depth, equation.heights[example.blank], example.blank < equation.ends[1]] += 1
    assert {cell[0] for cell in cells} == set(range(8, 14)) and {cell[1] for cell in cells} == {0, 1, 2}
    assert max(cells.values()) == 2 and sum(cells.values()) >= 68


def test_blanked_equations_are_true_to_a_second_opinion(blanks):
    assert [actual for example in blanks if (actual := complaint(example))] == []


def test_equations_are_different_and_of_the_test_only_partition(blanks):
    keys = [canonical_key(example.equation) for example in blanks]
    assert len(keys) == len(set(keys)) and all(in_partition(key, "deep") for key in keys)


def test_the_truth_is_a_candidate_of_the_class_of_the_blank(blanks, candidates):
    classes = {candidate.equation: candidate.value_class for candidate in candidates}
    assert len(classes) == len(candidates)
    for example in blanks:
        assert example.certificate["candidates"] == "candidates.jsonl.gz"
        assert classes[example.equation.subtree(example.blank)] == example.value_class
        assert example.value_class in example.certificate["right"]


def test_candidates_are_leaves_and_depths_one_and_two(candidates):
    depths = [candidate.equation.depth for candidate in candidates]
    assert depths.count(0) == 14 and depths.count(1) > 850 and depths.count(2) > 20 and max(depths) == 2
    assert all(candidate.label is None for candidate in candidates)


def test_classes_are_right_at_other_points(candidates):
    actual = values(candidates)
    first = {}
    for row, candidate in enumerate(candidates):
        first.setdefault(candidate.value_class, row)
        gap = largest_gap(actual[row], actual[first[candidate.value_class]])
        assert -1 < gap < 1e-9, f"{candidate.equation} is not {candidates[first[candidate.value_class]].equation}"
    heads = list(first.values())
    for i, row in enumerate(heads[1:], 1):
        near = int(np.argmin(gaps := largest_gap(actual[heads[:i]], actual[row])))
        assert gaps[near] > 1e-7, f"{candidates[row].equation} may be {candidates[heads[near]].equation}"


def test_right_classes_fill_and_others_do_not(blanks, candidates):
    rng = np.random.default_rng(0)
    members = defaultdict(list)
    for candidate in candidates:
        members[candidate.value_class].append(candidate.equation)
    for example in blanks[::3]:
        right, doubtful = example.certificate["right"], example.certificate["doubtful"]
        for name in right[:4]:
            assert fills(example.equation, example.blank, members[name][-1]).verdict == "holds"
        for name in doubtful[:4]:
            assert fills(example.equation, example.blank, members[name][0]).verdict in ("conditional", "undefined")
        for name in rng.choice(sorted(set(members) - {*right, *doubtful}), 8):
            assert fills(example.equation, example.blank, members[name][0]).verdict != "holds"


@pytest.mark.slow
def test_another_seed_makes_other_blanks(blanks, tmp_path):
    produce("completion", Options(seed=8, equations=36), tmp_path)
    assert not {example.equation for example in read(tmp_path / "blanks.jsonl.gz")} & {e.equation for e in blanks}
