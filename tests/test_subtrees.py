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


def some_subtrees(forest, count, seed=0):
    """Distinct subtrees, as id, the nodes (name, text, children) of their tree children first, and the index of their root."""
    rng = random.Random(seed)
    trees, seen = list(range(len(forest))), set()
    rng.shuffle(trees)
    for tree in trees:
        listed, places = checker_steps(forest.expression(tree))
        start = forest.offsets[tree]
        nodes = [node for node in range(1, len(places)) if forest.subtree[start + node] not in seen]
        for node in rng.sample(nodes, min(4, len(nodes))):
            if len(seen) < count and forest.subtree[start + node] not in seen:
                seen.add(forest.subtree[start + node])
                yield int(forest.subtree[start + node]), listed, places[node]


def checker_steps(tree):
    """All nodes below the root, children first, and the index of every node of the tree in that list."""
    listed, places, done = [], [0] * tree.size, []
    for node in range(tree.size - 1, 0, -1):
        children = tuple(done.pop() for _ in range(tree.arities[node]))
        places[node] = len(listed)
        done.append(len(listed))
        listed.append((tree.names[node], tree.texts[node], children))
    return listed, places


def exact_values(listed, point):
    """The values of all nodes in 60 digits, None where undefined."""
    variables = {name: checker.CONTEXT.mpmathify(training_value(name, point)) for name in "xyzwuv"}
    values = []
    for name, text, children in listed:
        arguments = [values[child] for child in children]
        values.append(None)
        if None not in arguments:
            with suppress(checker.Undefined):
                value = checker.operate(name, arguments) if text is None else checker.leaf(name, text, variables)
                values[-1] = checker.tidy(value)
    return values


def test_values_are_those_of_the_independent_checker(forest, record_property):
    targets = targets_of(forest, POINTS)
    subtrees = list(some_subtrees(forest, COUNT))
    assert len(subtrees) == COUNT
    counts = dict.fromkeys((UNKNOWN, DEFINED, UNDEFINED), 0)
    listed_before, values = None, {}
    for subtree, listed, place in subtrees:
        if listed is not listed_before:
            listed_before, values = listed, {point: exact_values(listed, point) for point in range(POINTS)}
        for point in range(POINTS):
            status, value = targets.status[subtree, point], values[point][place]
            counts[status] += 1
            if status == UNDEFINED:
                assert value is None, (listed, point)
            elif status == DEFINED:
                assert value is not None, (listed, point)
                exact = [float(checker.CONTEXT.asinh(part)) for part in (value.real, value.imag)]
                assert targets.value[subtree, point] == pytest.approx(np.clip(exact, -8, 8), abs=2e-6), (listed, point)
    record_property(
        "note", f"targets of {COUNT} subtrees at {POINTS} points: {counts[UNKNOWN]} unknown, {counts[UNDEFINED]} undefined"
    )
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


def test_a_constant_is_exact_where_complex128_is_not():
    texts = {"sin(pi)": 0.0, "cos(pi/2)": 0.0, "acos(3)*0 + 2": 2.0, "sin(2*pi) + 3": 3.0, "exp(40)/exp(40)": 1.0}
    forest, roots = of_texts(texts)
    for number, status in values_at_points(forest, [0, 5]):
        assert number[roots].tolist() == pytest.approx([*texts.values()], abs=1e-15)
        assert (status[roots] == DEFINED).all()


def test_what_complex128_cannot_tell_is_unknown_and_an_argument_that_is_undefined_decides():
    texts = dict.fromkeys(("x + x*-1", "1/(x + x*-1)", "tanh(40*x)"), UNKNOWN)
    texts |= dict.fromkeys(("x + 1/0", "(x + x*-1) + 1/0"), UNDEFINED)
    forest, roots = of_texts(texts)
    assert dict(zip(texts, targets_of(forest, 1).status[roots, 0].tolist(), strict=True)) == texts


def test_a_selection_of_trees_keeps_the_ids_of_its_subtrees(forest):
    chosen = [5, 900, 17, 44]
    selected, whole = targets_of(forest.select(chosen), 3), targets_of(forest, 3)
    ids = np.unique(forest.select(chosen).subtree)
    assert len(ids) < len(selected.status) == ids[-1] + 1
    assert (selected.value[ids] == whole.value[ids]).all() and (selected.status[ids] == whole.status[ids]).all()
    others = np.setdiff1d(np.arange(len(selected.status)), ids)
    assert (selected.status[others] == UNKNOWN).all() and (selected.value_class[others] == -1).all()


def test_subtrees_of_equations_have_values_and_equations_have_none():
    rng = random.Random(0)
    forest = Forest.build([random_equation(rng, 3) for _ in range(20)], Vocabulary.preset("released"))
    status = targets_of(forest, 2).status
    roots = forest.subtree[forest.offsets[:-1]]
    assert (status[roots] == UNKNOWN).all() and (status[0] == DEFINED).all()
