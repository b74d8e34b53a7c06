"""Scores of all candidates for blanks, by a verification model."""

from collections.abc import Iterator, Sequence
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
