import random

import numpy as np
import pytest

from dgl_treestack import Equation, Example
from dgl_treestack.audit import matches
from dgl_treestack.audit.corpus import build
from dgl_treestack.generate.assembly import tokens


def corpus(*files):
    """Files of (text, label) or (text, label, pair)."""
    examples_of_file = [
        (f"file {i}", [Example(Equation.parse(text), label, text, pair="".join(pair)) for text, label, *pair in file])
        for i, file in enumerate(files)
    ]
    return build(examples_of_file, keys=True)


def duplicates(*rows):
    return matches.count_duplicates(corpus(rows), np.arange(len(rows)))


def numbers(counts, kind):
    return tuple(counts[kind].get(key) for key in ("equations", "opposite", "surplus"))


def test_duplicates_and_label_conflicts_are_counted_and_named():
    counts = duplicates(("x + 1 = y", 1), ("x + 1 = y", 1), ("a = 1 + b", 1), ("x + 1 = sin(y)", 0))
    assert numbers(counts, "same text") == (2, 0, 1)
    assert numbers(counts, "same equation") == (3, 0, 2)
    assert counts["same equation"]["share"] == 75
    counts = duplicates(("x + 1 = y", 1), ("a = 1 + b", 0), ("sin(x) = x", 0))
    assert (numbers(counts, "same text"), numbers(counts, "same equation")) == ((0, 0, 0), (2, 2, 1))
    assert counts["same equation"]["examples of opposite"] == ["x + 1 = y", "a = 1 + b"]
    assert numbers(duplicates(("x = y", None), ("x = y", 1)), "same text") == (2, 0, 1), "unknown is no conflict"


def test_shared_sides_are_whole_deep_up_to_names_and_not_of_the_own_pair():
    text, other = "sin(x) + 1 = cos(tan(y))", "sin(x) + 2 = cos(tan(y))"
    apart = duplicates((text, 1, "a"), (other, 0, "b"))
    assert apart["one label apart"]["equations"] == apart["shared side"]["equations"] == 2
    together = duplicates((text, 1, "a"), (other, 0, "a"))
    assert together["one label apart"]["equations"] == together["shared side"]["equations"] == 0
    counts = duplicates(("sin(x + 1) = y", 1), ("cos(z) = sin(1 + a)", 0), ("cos(a) = x", 1), ("tan(sin(x + 1)) = 2", 1))
    assert numbers(counts, "shared side")[:2] == (2, 2)  # neither cos(z), of depth 1, nor a part of a side


def reference(rows, of, among):
    """One-edit neighbours by comparing everything with everything."""
    trees = [Equation.parse(text) for text, *_ in rows]
    words = [tokens(tree) for tree in trees]

    def near(i, j):
        differing = sum(a != b for a, b in zip(words[i], words[j], strict=True)) if trees[i].arities == trees[j].arities else 0
        return differing == 1 and rows[i][2] != rows[j][2]

    alike = [any(near(i, j) for j in among) for i in of]
    opposite = [any(near(i, j) and rows[i][1] == 1 - rows[j][1] for j in among) for i in of]
    return alike, opposite


@pytest.mark.parametrize("nodes_at_a_time", [1, 50, 10**6])
def test_neighbours_are_those_that_comparing_all_with_all_finds(monkeypatch, nodes_at_a_time):
    monkeypatch.setattr(matches, "NODES_AT_A_TIME", nodes_at_a_time)
    rng = random.Random(0)
    patterns = ("f({}) = {}", "f({}) + {} = {}", "f({})*{} = {}", "{} + f({}) = {}", "f({} + {}) = {}")
    rows = []
    for _ in range(120):
        pattern = rng.choice(patterns).replace("f", rng.choice(("sin", "cos", "tan")))
        rows.append((pattern.format(*rng.choices("xyz12", k=3)), rng.randrange(2), str(rng.randrange(40))))
    equations = corpus(rows)
    of, among = list(range(0, 120, 2)), list(range(30, 120))
    masks = [np.isin(np.arange(120), positions) for positions in (of, among)]
    found_alike, found_opposite = matches.find(equations, "one label apart", *masks)
    alike, opposite = reference(rows, of, among)
    assert 5 < sum(opposite) < sum(alike) < 60
    assert found_alike[of].tolist() == alike and found_opposite[of].tolist() == opposite
    assert not found_alike[~masks[0]].any()


def test_overlap_of_each_file_in_the_other_or_in_all_others():
    train = [("sin(x + 1) = y", 1), ("x*2 = y", 0), ("cos(x) = 1", 0)]
    test = [("y = x*2", 1), ("cos(x) = 2", 1), ("tan(sin(x + 1)) = x", 0), ("sin(1 + z) = tan(x)", 0)]
    first, second = matches.count_overlap(corpus(train, test))
    assert (first["of"], first["in"], first["equations"]) == ("file 0", "file 1", 3)
    assert (second["of"], second["in"], second["equations"]) == ("file 1", "file 0", 4)
    alike = {kind: (counts["equations"], counts["opposite"], counts["share"]) for kind, counts in second["alike"].items()}
    one = (1, 1, 25)
    assert alike == {"same text": (0, 0, 0), "same equation": one, "one label apart": one, "shared side": one}
    first, _ = matches.count_overlap(corpus([("sin(x) = 1", 1, "p0")], [("sin(x) = 2", 0, "p0")]))
    assert first["alike"]["one label apart"]["equations"] == 1, "the same name of a pair in two files is two pairs"
    files = [[("x = y", 1)], [("x = y", 1)], [("sin(x) = y", 1)], [("tan(x + 1) = y", 1)], [("x + 1 = 2", 1)]]
    rows = matches.count_overlap(corpus(*files))
    assert [row["in"] for row in rows] == [matches.OTHERS] * 5
    assert [row["alike"]["same text"]["equations"] for row in rows] == [1, 1, 0, 0, 0]
