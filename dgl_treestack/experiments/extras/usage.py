"""The number of stack rows that a model uses (Arabshahi 2020, appendix, Table 5)."""

import numpy as np
import torch

from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.experiments.extras._extra import from_data
from dgl_treestack.model.dataset import ExampleSet
from dgl_treestack.model.model import Model

USED = 1e-3  # minimum Euclidean norm of a row in use: the paper's threshold
BATCH = 256


@torch.no_grad()
def make_records(model: Model, dataset: ExampleSet, threshold: float = USED) -> Table:
    """Return a row per equation, in order, with the number of stack rows in use.

    `usage` is averaged over the operators of both sides, `top` over the two topmost nodes of the sides, which verification
    compares. The paper does not say over which nodes it averages. `full`, from the trees alone, is the average of
    min(height of a node, rows), the rows that can be in use if every node pushes.
    Raises ConfigurationError for a model without stacks, or with a task that does not compare two sides.
    """
    if "stack" not in model.tree_cell.fields:
        raise ConfigurationError("The model has no stack whose use could be measured.")
    for name, head in model.heads.items():
        if not head.compares_sides:
            raise ConfigurationError(
                f"The use of a stack is measured at the two sides of equations, which task {name!r} lacks."
            )
    model.eval()
    rows = model.tree_cell.fields["stack"][0]
    columns: dict[str, list[float]] = {"usage": [], "top": [], "full": []}
    for batch in dataset.batches(BATCH):
        model(batch, keep=True)
        stacks = batch.graph.ndata["stack"].unflatten(1, (rows, -1))
        used = (stacks.norm(dim=2) > threshold).sum(1).numpy()
        is_inner = (batch.graph.ndata["op"] >= 0).numpy()
        is_inner[batch.roots.numpy()] = False
        tree = np.repeat(np.arange(len(batch.roots)), batch.graph.batch_num_nodes().numpy())
        count = np.bincount(tree[is_inner], minlength=len(batch.roots))
        usage = np.bincount(tree[is_inner], used[is_inner], len(batch.roots)) / np.maximum(count, 1)
        columns["usage"] += usage.tolist()
        columns["top"] += used[batch.sides.numpy()].mean(1).tolist()
    for example in dataset.examples:
        heights = np.array(example.equation.heights[1:])
        full = np.minimum(heights[heights > 0], rows)
        columns["full"].append(float(full.mean()) if len(full) else 0.0)
    return records.of_examples(dataset.examples, columns)


EXTRAS = {"usage": from_data(lambda model, dataset, _: make_records(model, dataset), "validation", "usage")}
