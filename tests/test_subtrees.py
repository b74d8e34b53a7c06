"""Targets of training at nodes: values and classes of subtrees, against an evaluator that shares no code."""

import random
from contextlib import suppress

import independent_checker as checker
import numpy as np
import pytest
from trees import random_equation

from dgl_treestack import Expression, Forest, Vocabulary
from dgl_treestack.data import formats
from dgl_treestack.truth import value_of
from dgl_treestack.truth.subtrees import DEFINED, UNDEFINED, UNKNOWN, targets_of, training_value, values_at_points

COUNT, POINTS = 400, 6
VOCABULARY = Vocabulary.preset("canonical")


def of_texts(texts):
    """The forest of some expressions, and the ids of the whole trees among its subtrees."""
    forest = Forest.build([Expression.parse(text) for text in texts], VOCABULARY)
    return forest, forest.subtree[forest.offsets[:-1]]


@pytest.fixture(scope="module")
def forest():
    examples = formats.read_examples(["bundled:quickstart/train"])
    return Forest.build([example.equation for example in examples], VOCABULARY)


def some_subtrees(forest, count, seed=8):
    """Ids and trees of distinct subtrees, at most four of an equation. With this seed some are undefined, as few of all are."""
    rng = random.Random(seed)
    seen = set()
    for number in rng.sample(range(len(forest)), len(forest)):
        whole, ids = forest.expression(number), forest.subtree[forest.offsets[number] : forest.offsets[number + 1]]
        nodes = [node for node in range(1, whole.size) if ids[node] not in seen]
        for node in rng.sample(nodes, min(4, len(nodes))):
            if len(seen) < count and ids[node] not in seen:
                seen.add(ids[node])
                yield int(ids[node]), whole.subtree(node)


def exact_value(tree, point):
    """The value in 60 digits, None where undefined."""
    variables = {name: checker.CONTEXT.mpmathify(training_value(name, point)) for name in "xyzwuv"}
    with suppress(checker.Undefined):
        return checker.value_at(tree, variables)
    return None


def test_values_are_those_of_the_independent_checker(forest, record_property):
    targets = targets_of(forest, POINTS)
    subtrees = list(some_subtrees(forest, COUNT))
    assert len(subtrees) == COUNT
    counts = dict.fromkeys((UNKNOWN, DEFINED, UNDEFINED), 0)
    for subtree, tree in subtrees:
        for point in range(POINTS):
            status, value = targets.status[subtree, point], exact_value(tree, point)
            counts[status] += 1
            assert status == UNKNOWN or (value is None) == (status == UNDEFINED), (tree, point)
            if status == DEFINED:
                exact = [float(checker.CONTEXT.asinh(part)) for part in (value.real, value.imag)]
                assert targets.value[subtree, point] == pytest.approx(np.clip(exact, -8, 8), abs=2e-6), (tree, point)
    unsure = f"{counts[UNKNOWN]} unknown, {counts[UNDEFINED]} undefined"
    record_property("note", f"targets of {COUNT} subtrees at {POINTS} points: {unsure}")
    assert counts[DEFINED] > 0.97 * COUNT * POINTS and counts[UNDEFINED] > 0


def test_classes_are_those_of_equal_values():
    texts = ["sin(x)**2 + cos(x)**2", "1", "x + x", "2*x", "x*2", "y + y", "1/(x - x)", "1/0", "x*0", "0", "x*y", "y*x"]
    texts += ["tan(3*x*y)", "x + 2*x"]
    forest, roots = of_texts(texts)
    classes = dict(zip(texts, targets_of(forest, POINTS).value_class[roots].tolist(), strict=True))
    assert classes["x + x"] == classes["2*x"] == classes["x*2"] != classes["y + y"]
    for first, second in (("1", "sin(x)**2 + cos(x)**2"), ("x*0", "0"), ("x*y", "y*x")):
        assert classes[first] == classes[second]
    assert classes["1/0"] == -1 == classes["1/(x - x)"]
    assert classes["tan(3*x*y)"] == -1  # it saturates where 3*x*y is far from the real axis
    assert len(set(classes.values())) == 7


def test_no_label_was_certified_at_these_points():
    ours = {training_value(name, point) for name in "xyzwu" for point in range(100)}
    assert not ours & {value_of(name, point) for name in "xyzwu" for point in range(24)}
    assert all(abs(value.real) <= 1.5 and 0.15 <= abs(value.imag) <= 1.25 for value in ours)


def test_what_complex128_cannot_tell_is_unknown_but_for_constants_and_undefined_arguments():
    texts = {"sin(pi)": 0.0, "cos(pi/2)": 0.0, "acos(3)*0 + 2": 2.0, "sin(2*pi) + 3": 3.0, "exp(40)/exp(40)": 1.0}
    forest, roots = of_texts(texts)
    for number, status in values_at_points(forest, [0, 5]):
        assert number[roots].tolist() == pytest.approx([*texts.values()], abs=1e-15)
        assert (status[roots] == DEFINED).all()
    texts = dict.fromkeys(("x + x*-1", "1/(x + x*-1)", "tanh(40*x)"), UNKNOWN)
    texts |= dict.fromkeys(("x + 1/0", "(x + x*-1) + 1/0"), UNDEFINED)
    forest, roots = of_texts(texts)
    assert dict(zip(texts, targets_of(forest, 1).status[roots, 0].tolist(), strict=True)) == texts


def test_a_selection_of_trees_keeps_the_ids_of_its_subtrees_and_equations_have_no_values(forest):
    chosen = [5, 900, 17, 44]
    selected, whole = targets_of(forest.select(chosen), 3), targets_of(forest, 3)
    ids = np.unique(forest.select(chosen).subtree)
    assert len(ids) < len(selected.status) == ids[-1] + 1
    assert (selected.value[ids] == whole.value[ids]).all() and (selected.status[ids] == whole.status[ids]).all()
    others = np.setdiff1d(np.arange(len(selected.status)), ids)
    assert (selected.status[others] == UNKNOWN).all() and (selected.value_class[others] == -1).all()
    rng = random.Random(0)
    forest = Forest.build([random_equation(rng, 3) for _ in range(20)], Vocabulary.preset("released"))
    status = targets_of(forest, 2).status
    roots = forest.subtree[forest.offsets[:-1]]
    assert (status[roots] == UNKNOWN).all() and (status[0] == DEFINED).all()
