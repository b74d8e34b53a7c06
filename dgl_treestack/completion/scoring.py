"""Scores of all candidates for blanks, by a verification model, and ranks of the truth among candidates ordered by score.

    raw       rank of the blanked expression itself
    class     rank of the first candidate that is right
    collapse  rank of the first right value class, where only the best candidate of each class counts

Ties keep the order of the candidates. The value class of the blanked expression is right; our files also list other classes
with which the equation holds, and doubtful ones, which are omitted. Source: the authors' released code.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from dgl_treestack.completion.graphs import Blank, BlankGraphs
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression import Expression
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import compute

TASK = "verification"
MOST_NODES = 60_000  # of a graph


@torch.no_grad()
def scores(
    model: Model, blanks: Sequence[Blank], candidates: Sequence[Expression], *, engine: str = "levels"
) -> Iterator[np.ndarray]:
    """Yield for each blank the scores (C,) of all candidates; a higher score means that the equation more likely holds.

    Raises ConfigurationError for a model without verification or a model that is not a tree model, VocabularyError for a leaf
    without a row.
    """
    if TASK not in model.heads:
        raise ConfigurationError(f"The model was made for {', '.join(model.heads)}; blanks are filled by one for {TASK}.")
    model.eval()
    graphs = BlankGraphs(blanks, candidates, model.vocabulary, model.signature)
    for batch, sides in graphs.batches(MOST_NODES):
        states = compute(batch, model.tree_cell, engine=engine, signature=model.signature)
        pairs = torch.from_numpy(sides).flatten(0, 1)
        scores_of_pairs = model.heads[TASK](partial(states.of, "h"), pairs[:, 0], pairs)
        for row in scores_of_pairs.unflatten(0, sides.shape[:2]).cpu().numpy():
            yield row[graphs.distinct]


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
