"""How well the states of subtrees tell their values: the read-outs of the value signal beside the values."""

import numpy as np
import torch

from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.experiments.extras import from_data
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.truth.subtrees import DEFINED, targets_of

BATCH = 256
MOST = 400  # subtrees of a height, drawn at random


@torch.no_grad()
def make_records(model: Model, dataset: Dataset, engine: str = "levels") -> Table:
    """Return a row per subtree, by height: `depth` is that of the subtree, `values` and `readouts` have an entry per point.

    A value is [asinh of real part, asinh of imaginary part] as in `truth.subtrees`, None where it is undefined or unknown.
    Raises ConfigurationError for a model that was trained without the value signal.
    """
    if model.signals is None:
        raise ConfigurationError("The model was trained without signals at nodes, so that it has no read-outs of values.")
    model.eval()
    targets, generator = targets_of(dataset.forest, model.signals.points), np.random.default_rng(0)
    subtree, first = np.unique(dataset.forest.subtree, return_index=True)
    has_value = (targets.status[subtree] == DEFINED).any(1)
    subtree, first = subtree[has_value], first[has_value]
    height = dataset.forest.height[first]
    chosen = np.concatenate([generator.permutation(np.flatnonzero(height == level))[:MOST] for level in np.unique(height)])
    tree_of_node = np.repeat(np.arange(len(dataset)), dataset.forest.sizes)
    readouts: list[list[list[float]]] = []
    for start in range(0, len(chosen), BATCH):
        rows = chosen[start : start + BATCH]
        trees, place = np.unique(tree_of_node[first[rows]], return_inverse=True)
        batch = dataset.batch(trees)
        offsets = np.concatenate([[0], np.cumsum(dataset.forest.sizes[trees])])
        nodes = offsets[place] + first[rows] - dataset.forest.offsets[trees[place]]
        readouts += model.signals.predict_values(model.node_states(batch, engine)(torch.from_numpy(nodes)))[..., :2].tolist()
    trees = tree_of_node[first[chosen]]
    examples = [dataset.examples[tree] for tree in trees.tolist()]
    place = (first[chosen] - dataset.forest.offsets[trees]).tolist()
    is_defined, value = targets.status[subtree[chosen]] == DEFINED, targets.value[subtree[chosen]]
    columns = {
        "id": [f"{example.id}/{node}" for example, node in zip(examples, place, strict=True)],
        "depth": height[chosen].tolist(),
        "label": [None] * len(examples),
        "values": [
            [pair if is_known else None for pair, is_known in zip(*row, strict=True)]
            for row in zip(value.tolist(), is_defined.tolist(), strict=True)
        ],
        "readouts": readouts,
    }
    return records.of_examples(examples, columns)


EXTRAS = {"values": from_data(make_records, kind="values")}
