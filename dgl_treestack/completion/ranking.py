"""Ranks of the truth among candidates that are ordered by score.

    raw       rank of the blanked expression itself
    class     rank of the first candidate that is right
    collapse  rank of the first right value class, where only the best candidate of each class counts

Ties keep the order of the candidates. The value class of the blanked expression is right; our files also list other classes
with which the equation holds, and doubtful ones, which are omitted. Source: the authors' released code.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ranks:
    """Ranks from 1 on; class_ is `class`. best: index of the candidate with the highest score. chance: share that is right."""

    raw: int
    class_: int
    collapse: int
    best: int
    chance: float


def rank(
    scores: np.ndarray, classes: Sequence[str], truth: int, right: Collection[str], doubtful: Collection[str] = ()
) -> Ranks:
    """Rank the truth.

    scores, classes: of every candidate (C,). truth: index of the blanked expression. right, doubtful: value classes.

    Raises ValueError when the truth is doubtful, or its class not right.
    """
    if classes[truth] not in right or classes[truth] in doubtful:
        raise ValueError(f"The truth is of class {classes[truth]!r}, which is not among those that are right.")
    order = [int(i) for i in np.argsort(-scores, kind="stable") if classes[i] not in doubtful]
    is_right = [classes[i] in right for i in order]
    first = is_right.index(True)
    wrong_before = {classes[i] for i in order[:first]}
    return Ranks(order.index(truth) + 1, first + 1, len(wrong_before) + 1, order[0], sum(is_right) / len(is_right))
