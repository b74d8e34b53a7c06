from collections import Counter

import pytest

from dgl_treestack.formats import read
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.quickstart import FOLDS, generate

PLAN = {"train": {2: 4, 3: 15, 4: 30, 6: 30}, "validation": {3: 6, 5: 8}, "test": {4: 8, 10: 8, 13: 8}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    return generate(folder, seed=5, plan=PLAN)


def test_one_seed_makes_the_same_bytes(made, tmp_path):
    again, other = generate(tmp_path / "a", seed=5, plan=PLAN), generate(tmp_path / "b", seed=6, plan=PLAN)
    for fold in FOLDS:
        content = made.files[fold].read_bytes()
        assert again.files[fold].read_bytes() == content
        assert other.files[fold].read_bytes() != content


def test_the_report_counts_what_is_in_the_files(made):
    for fold in FOLDS:
        assert Counter(example.equation.depth for example in read(made.files[fold])) == made.counts[fold]
        assert {depth: count // 2 for depth, count in made.counts[fold].items() if depth > 2} == {
            depth: pairs for depth, pairs in PLAN[fold].items() if depth > 2
        }


def test_members_of_a_pair_stand_together_with_opposite_labels(made):
    for fold in FOLDS:
        examples = list(read(made.files[fold]))
        for true, false in zip(examples[::2], examples[1::2], strict=True):
            assert (true.label, false.label) == (1, 0)
            assert (true.pair, true.family, true.equation.depth) == (false.pair, false.family, false.equation.depth)
            assert true.certificate["verdict"] == "holds" and false.certificate["verdict"] == "refuted"


def test_no_equation_is_in_two_folds(made):
    keys = [canonical_key(example.equation) for fold in FOLDS for example in read(made.files[fold])]
    assert len(keys) == len(set(keys))
