import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.completion.scoring import Ranks, rank

CLASSES = ["a", "b", "b", "c", "d"]


def test_the_three_ranks():
    ranks = rank(np.array([1.0, 9.0, 8.0, 2.0, 5.0]), CLASSES, 3, {"c"})
    assert ranks == Ranks(raw=4, class_=4, collapse=3, best=1, chance=1 / 5)  # before it: b, b and d


def test_another_member_of_the_class_counts():
    assert rank(np.array([1.0, 3.0, 0.0, 2.0, 4.0]), CLASSES, 2, {"b"}) == Ranks(
        raw=5, class_=2, collapse=2, best=4, chance=2 / 5
    )


def test_ties_keep_the_order_of_the_candidates():
    assert rank(np.zeros(5), CLASSES, 2, {"b"}) == Ranks(raw=3, class_=2, collapse=2, best=0, chance=2 / 5)


def test_other_right_classes_count_and_doubtful_ones_do_not():
    scores = np.array([9.0, 1.0, 2.0, 3.0, 8.0])
    assert rank(scores, CLASSES, 2, {"b", "c"}, {"a"}) == Ranks(raw=3, class_=2, collapse=2, best=4, chance=3 / 4)


def test_a_truth_that_is_not_right_is_refused():
    for right, doubtful in (({"a"}, set()), ({"b"}, {"b"})):
        with pytest.raises(ValueError, match="class 'b'"):
            rank(np.zeros(5), CLASSES, 1, right, doubtful)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), min_size=1, max_size=12), st.data())
def test_ranks_by_counting(candidates, data):
    """raw: who is better, or equal and earlier. class: the best rank in the class. collapse: better classes."""
    scores, classes = np.array([s for s, _ in candidates], float), [c for _, c in candidates]
    truth = data.draw(st.integers(0, len(classes) - 1))
    raw = {i: 1 + sum((scores[j], -j) > (scores[i], -i) for j in range(len(classes))) for i in range(len(classes))}
    best = {c: min(raw[i] for i in raw if classes[i] == c) for c in set(classes)}
    ranks = rank(scores, classes, truth, {classes[truth]})
    best_right = best[classes[truth]]
    assert (ranks.raw, ranks.class_, raw[ranks.best]) == (raw[truth], best_right, 1)
    assert ranks.collapse == 1 + sum(first < best_right for c, first in best.items() if c != classes[truth])
