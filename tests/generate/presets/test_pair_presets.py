from collections import Counter

import pytest
from each_case import assert_raises, cases

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.generate import presets
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.presets.paper import COUNTS
from dgl_treestack.generate.rewrite import replay
from dgl_treestack.truth import judge_at_fixed_points, value_of

FOLDS = ("train", "validation", "test")
MORE = 1200


@pytest.fixture
def paper(made):
    return made("paper").files


@pytest.fixture
def deep(made):
    return made("deep").files["test"]


def test_counts_are_those_of_the_papers_table_and_half_of_them_are_correct(paper, deep):
    plan = presets.find("paper").plan(presets.SetOptions(seed=0))
    for depth, equations in COUNTS.items():
        assert sum(pairs for cell, pairs in plan.items() if cell.depth == depth) == round(equations / 2)
    assert 41_800 < 2 * sum(plan.values()) < 42_000
    assert 27_000 < 2 * sum(pairs for cell, pairs in plan.items() if cell.fold == "train" and cell.depth <= 7) < 27_400
    actual = Counter(example.equation.depth for fold in FOLDS for example in paper[fold])
    assert all(abs(actual[depth] - COUNTS[depth] * 900 / 41_894) <= 3 for depth in range(3, 14))
    for examples in (*paper.values(), deep):
        labels = Counter((example.equation.depth, example.label) for example in examples)
        assert all(labels[depth, 0] == labels[depth, 1] for depth, _ in labels)
    assert set(range(3, 20)) <= {example.equation.depth for example in deep}


def test_no_family_in_two_folds_none_of_training_in_deep_and_no_whole_side_in_training(paper, deep, made):
    deeper = made("paper-deeper").examples
    every_set = {**paper, "deep": deep, "deeper": deeper}
    families = {name: {e.family for e in examples} for name, examples in every_set.items()}
    assert not families["train"] & (families["validation"] | families["test"] | families["deep"] | families["deeper"])
    assert not families["validation"] & families["test"] and not families["deeper"] & families["test"]
    assert {example.equation.depth for example in deeper} == {8, 9, 10}

    def sides(examples, least):
        actual = [e.equation for e in examples if e.equation.depth >= least]
        return {canonical_key(side) for e in actual for side in (e.left, e.right) if side.depth >= 2}

    assert not sides(paper["train"], 1) & sides([*paper["test"], *paper["validation"]], 4)


def test_a_positive_carries_its_derivation_and_a_negative_style_and_witness(paper, deep):
    examples = [*paper["train"], *deep]
    kinds = set()
    for example in [e for e in examples if e.label == 1][::4]:
        assert list(replay(example.certificate["derivation"]))[-1][1] == example.equation
        kinds |= {step[0] for step in example.certificate["derivation"]}
    assert kinds == {"start", "rewrite", "both", "combine"}
    negatives = [e for e in examples if e.label == 0]
    styles = Counter(e.certificate["style"] for e in negatives)
    assert set(styles) == {"swap", "buried", "false rule"} and min(styles.values()) > 0.1 * len(negatives)
    for example in negatives[::10]:
        witness, actual = example.certificate["witness"], judge_at_fixed_points(example.equation).witness
        assert witness["point"] == actual.point
        for side, value in (("left", actual.left), ("right", actual.right)):
            assert complex(*witness[side]) == pytest.approx(value, rel=1e-5)
        assert all(value == value_of(name, actual.point) for name, value in actual.variables.items())


@pytest.mark.slow
def test_more_training_data_leaves_evaluation_and_the_first_training_data_alone(made, paper):
    before, after = paper, made("paper", train_size=MORE).files
    assert before["test"] == after["test"] and before["validation"] == after["validation"]
    first = before["train"]
    assert after["train"][: len(first)] == first and len(after["train"]) > 1.8 * len(first)
    shallow = sum(example.equation.depth <= 7 for example in after["train"])
    assert abs(shallow - MORE) < 36


def test_the_manifest_counts_what_was_dropped(made):
    notes = made("paper").manifest["notes"]
    pairs = sum(notes["pairs made, by depth"].values())
    dropped = sum(sum(gate.values()) for gate in notes["pairs dropped, by gate and depth"].values())
    assert pairs - dropped == len(made("paper").examples) / 2
    assert {"balance", "side of an evaluation equation"} <= set(notes["pairs dropped, by gate and depth"])


@cases(pytest.param("deep", "test", 4, 40, marks=pytest.mark.slow), ("paper-deeper", "validation", 8, 12))
def test_it_goes_as_deep_as_asked(made, name, fold, first, deepest):
    depths = {example.equation.depth for example in made(name, seed=3, max_depth=deepest, equations=80).files[fold]}
    assert set(range(first, deepest + 1)) <= depths and max(depths) == deepest
    if name == "paper-deeper":
        assert_raises(ConfigurationError, "depth 8 at least", made, name, max_depth=7)
