"""The data in the wheel: counts, labels, folds, leakage. That labels are right: generate/presets/test_every_preset.py."""

import json
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from independent_checker import complaints
from plain_features import token_counts

from dgl_treestack.audit import leakage
from dgl_treestack.audit.corpus import build
from dgl_treestack.data.formats import read, read_lines
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.grow import FUNCTIONS, VARIABLES
from dgl_treestack.generate.rewrite import replay
from dgl_treestack.resources import find_data
from dgl_treestack.truth import judge, judge_at_fixed_points

FOLDS = ("train", "validation", "test")
PATHS = {fold: find_data(f"bundled:quickstart/{fold}") for fold in FOLDS}
MINIMUM = {"train": 7_000, "validation": 1_500, "test": 3_000}
DEPTHS = {"train": range(2, 8), "validation": range(2, 8), "test": range(2, 14)}  # and depth 1 where there is something


@pytest.fixture(scope="module")
def data():
    return {fold: list(read(path)) for fold, path in PATHS.items()}


def test_the_files_are_small():
    assert {path.name for path in PATHS.values()} == {f"{fold}.jsonl.gz" for fold in FOLDS}
    assert sum(path.stat().st_size for path in PATHS.values()) < 1_000_000


@pytest.mark.parametrize("fold", FOLDS)
def test_counts_and_depths_half_of_which_hold(data, fold):
    labels = defaultdict(Counter)
    for example in data[fold]:
        labels[example.equation.depth][example.label] += 1
    assert all(counts[0] == counts[1] for counts in labels.values())
    assert len(data[fold]) >= MINIMUM[fold]
    assert sorted({*labels} - {1}) == list(DEPTHS[fold])
    if fold == "test":
        assert min(counts.total() for depth, counts in labels.items() if depth > 2) >= 230


@pytest.mark.parametrize("fold", FOLDS)
def test_the_set_for_scale_smoke_is_every_fifth_pair(fold):
    fifth, every = ([*read_lines(find_data(f"bundled:{name}/{fold}"))] for name in ("smoke", "quickstart"))
    assert fifth == [line for number, line in enumerate(every) if number // 2 % 5 == 0]
    assert set(Counter(json.loads(line)["pair"] for line in fifth).values()) == {2}


def test_the_independent_checker_would_object(data):
    wrong = [replace(example, label=1 - example.label) for example in data["validation"][::12]]
    assert len(complaints(wrong)) > 0.99 * len(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("fold", FOLDS)
def test_certificates_are_what_judging_again_gives(data, fold):
    for example in data[fold][::50]:
        judgement, certificate = judge_at_fixed_points(example.equation), example.certificate
        assert judge(example.equation).verdict == judgement.verdict
        assert (judgement.verdict, judgement.points) == (certificate["verdict"], certificate["points"])
        assert judgement.points >= 10 and judgement.verdict == ("holds" if example.label else "refuted")
        if example.label:
            assert list(replay(certificate["derivation"]))[-1][1] == example.equation
        else:
            assert judgement.witness.point == certificate["witness"]["point"]


def test_nothing_is_in_two_folds_ids_are_unique_and_pairs_have_the_same_tokens(data):
    keys = [canonical_key(example.equation) for fold in FOLDS for example in data[fold]]
    assert len(keys) == len(set(keys))
    families = [{example.family for example in data[fold]} for fold in FOLDS]
    assert sum(map(len, families)) == len(set().union(*families))
    everything = [example for fold in FOLDS for example in data[fold]]
    assert len({example.id for example in everything}) == len(everything)
    assert set(Counter(example.pair for example in everything).values()) == {2}
    assert all(example.fold == fold for fold in FOLDS for example in data[fold])
    for true, false in zip(everything[::2], everything[1::2], strict=True):
        assert true.equation.depth == 1 or token_counts(true.equation) == token_counts(false.equation)


def test_every_function_and_every_leaf_is_known_and_used_and_few_equations_are_without_variables(data):
    vocabulary, used = PRESETS["released"], Counter()
    for example in data["train"]:
        used.update(set(example.equation.names))
        for _, kind, text in example.equation.leaves():
            assert vocabulary.row(kind, text) is not None
            assert kind != "Symbol" or text in VARIABLES
    assert min(used[name] for name in FUNCTIONS) > 0.05 * len(data["train"])
    deep = [example for fold in FOLDS for example in data[fold] if example.equation.depth > 2]
    assert sum("Symbol" not in example.equation.names for example in deep) < 0.2 * len(deep)


@pytest.mark.slow
def test_leakage_of_the_training_data(data, monkeypatch):
    monkeypatch.setattr(leakage, "TREES", 40)  # for time; `treestack audit` grows 200
    limits = {"tokens": 55, "parent-child pairs": 58, "side differences": 60}
    corpus = build([("train", data["train"])])
    (row,) = leakage.measure(corpus, np.arange(len(corpus)), leakage.Fit(baselines=tuple(limits), groups=((0, None),)))
    assert row["used"] == len(data["train"])
    for name, limit in limits.items():
        assert row["baselines"][name]["accuracy"] <= limit
