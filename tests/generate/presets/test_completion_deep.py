from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from independent_checker import complaint, draw_points, gaps

from dgl_treestack.data.formats import read
from dgl_treestack.expression import Equation
from dgl_treestack.generate.blanks import fills
from dgl_treestack.generate.folds import canonical_key, in_partition
from dgl_treestack.generate.presets import Options, completion_deep
from dgl_treestack.generate.production import produce

pytestmark = pytest.mark.slow
OPTIONS = Options(seed=3, equations=12)
SETS = ["01-1-0", "01-2-0", "05-1-0", "05-2-0", "11-1-0", "11-2-0"]
SIZES = {"BLANK_DEPTHS": (1, 5, 11), "VARIABLE_COUNTS": (1, 2), "CANDIDATES": 150, "NATURAL": 20}


@pytest.fixture(scope="module")
def small():
    """The preset with fewer and smaller sets; workers are told of the sizes by their shards."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SIZES.items():
            patch.setattr(completion_deep, name, value)
        yield


@pytest.fixture(scope="module")
def folder(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion-deep")
    produce("completion-deep", OPTIONS, folder)
    return folder


@pytest.fixture(scope="module")
def blanks(folder):
    return list(read(folder / "blanks.jsonl.gz"))


@pytest.fixture(scope="module")
def sets(folder):
    return {f"candidates-{name}.jsonl.gz": list(read(folder / f"candidates-{name}.jsonl.gz")) for name in SETS}


def variables(expression):
    return {text for _, kind, text in expression.leaves() if kind == "Symbol"}


def test_the_plan_is_kept(blanks):
    depths = Counter((example.equation.heights[example.blank], len(variables(example.equation))) for example in blanks)
    assert depths == {(depth, count): 2 for depth in (1, 5, 11) for count in (1, 2)}
    assert all(8 <= example.equation.depth <= 14 and example.fold == "test" for example in blanks)


def test_blanked_equations_are_true_to_a_second_opinion(blanks):
    assert all(example.label == 1 for example in blanks)
    assert [actual for example in blanks if (actual := complaint(example))] == []


def test_equations_are_different_and_of_the_test_only_partition(blanks):
    keys = [canonical_key(example.equation) for example in blanks]
    assert len(keys) == len(set(keys)) and all(in_partition(key, "deep") for key in keys)


def test_every_blank_has_all_candidates_and_a_right_one(blanks, sets):
    for example in blanks:
        candidates = sets[example.certificate["candidates"]]
        assert len({candidate.equation for candidate in candidates}) == 150
        truth = [c for c in candidates if c.equation == example.equation.subtree(example.blank)]
        assert [candidate.value_class for candidate in truth] == [example.value_class]
        assert example.value_class in example.certificate["right"]
        assert sum(candidate.value_class in example.certificate["right"] for candidate in candidates) < 20


def test_neither_depth_nor_variables_nor_size_give_the_truth_away(blanks, sets):
    for example in blanks:
        truth, candidates = example.equation.subtree(example.blank), sets[example.certificate["candidates"]]
        assert all(candidate.equation.depth == truth.depth for candidate in candidates)
        assert all(variables(candidate.equation) <= variables(example.equation) for candidate in candidates)
        assert sum(variables(candidate.equation) == variables(truth) for candidate in candidates) > 5
        assert sum(abs(candidate.equation.size - truth.size) <= 4 for candidate in candidates) > 20


def test_no_right_candidate_copies_the_other_side(blanks, sets):
    for example in blanks:
        for candidate in sets[example.certificate["candidates"]]:
            filled = example.equation.replace(example.blank, candidate.equation)
            assert filled.left != filled.right


@pytest.mark.slow
def test_classes_are_right_at_other_points(sets):
    points = draw_points(12)
    for candidates in sets.values():
        members = defaultdict(list)
        for candidate in candidates:
            members[candidate.value_class].append(candidate.equation)
        for head, *others in members.values():
            assert all(max(gaps(Equation.of(head, other), points), default=0.0) < 1e-12 for other in others)
        heads = [actual[0] for actual in members.values()]
        for one, other in pairwise(heads):
            assert max(gaps(Equation.of(one, other), points), default=1.0) > 1e-7


def test_right_classes_fill_and_others_do_not(blanks, sets):
    for example in blanks:
        right, doubtful = example.certificate["right"], example.certificate["doubtful"]
        for candidate in sets[example.certificate["candidates"]][::4]:
            verdict = fills(example.equation, example.blank, candidate.equation).verdict
            assert (verdict == "holds") == (candidate.value_class in right)
            assert verdict != "conditional" or candidate.value_class in doubtful


@pytest.mark.slow
def test_the_number_of_jobs_does_not_matter(folder, small, tmp_path):
    produce("completion-deep", OPTIONS, tmp_path, jobs=2)
    contents = [{path.name: path.read_bytes() for path in place.iterdir()} for place in (folder, tmp_path)]
    assert contents[0] == contents[1]
