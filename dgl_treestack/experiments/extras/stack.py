"""What a trained model uses its stack for: rows in use, and its answers when rows, or an action, are taken away."""

from collections import defaultdict

import numpy as np
import torch

from dgl_treestack.cells.memory import stack
from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.experiments.extras import from_data
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model

USED = 1e-3  # minimum Euclidean norm of a row in use: the paper's threshold
BATCH = 256


def _rows_of_stack(model: Model, purpose: str) -> dict[str, int]:
    """Return the number of rows of every stack of a model, by field. Raises ConfigurationError for a model without any."""
    rows_of_stack = {name: shape[0] for name, shape in model.tree_cell.fields.items() if name.endswith("stack")}
    if not rows_of_stack:
        raise ConfigurationError(f"The model has no stack {purpose}.")
    return rows_of_stack


@torch.no_grad()
def make_ablation(model: Model, dataset: Dataset) -> Table:
    """Return a row per labelled equation, in order, with columns that say whether the model is right, 1 or 0.

    `rows 0`, `rows 1`, ...: with so many rows of every stack, the others emptied after every update; the last column is the
    model itself. `without push`, ...: with this action switched off, see `memory.stack.limited`.
    Raises ConfigurationError for a model without stacks, or with a task at nodes.
    """
    rows_of_stack = _rows_of_stack(model, "from which rows could be taken away")
    if any(head.at_nodes for head in model.heads.values()):
        raise ConfigurationError("The model classifies nodes; rows are taken away from models of whole trees only.")
    dataset = dataset.with_targets()
    model.eval()
    size = max(rows_of_stack.values())
    # Row r > 0 is first filled at height r and needs r - 1 pops to come to the top, so that an output can depend on it
    # from height 2 r - 1 on: depths 1-7 cannot tell four rows from more, depths 8-13 cannot tell seven from more.
    limits: dict[str, tuple[int | None, str]] = {f"rows {rows}": (rows, "") for rows in range(size + 1)}
    actions = {name.rpartition("_")[2] for name in model.tree_cell.signals}  # of one of several stacks, as in c_push
    limits |= {f"without {action}": (None, action) for action in stack.ACTIONS if action in actions}
    right: dict[str, list[int]] = defaultdict(list)
    for batch in dataset.batches(BATCH):
        for name, (rows, action) in limits.items():
            with stack.limited(rows, action):
                right[name] += model.correct(model(batch), batch).int().tolist()
    return records.of_examples(dataset.examples, right)


@torch.no_grad()
def make_usage(model: Model, dataset: Dataset, threshold: float = USED) -> Table:
    """Return a row per equation, in order, with the number of stack rows in use (Arabshahi 2020, appendix, Table 5), the mean
    over several stacks.

    `usage` is averaged over the operators of both sides, `top` over the two topmost nodes of the sides, which verification
    compares. The paper does not say over which nodes it averages. `full`, from the trees alone, is the average of
    min(height of a node, rows), the rows that can be in use if every node pushes.
    Raises ConfigurationError for a model without stacks, or with a task that does not compare two sides.
    """
    rows_of_stack = _rows_of_stack(model, "whose use could be measured")
    for name, head in model.heads.items():
        if not head.compares_sides:
            raise ConfigurationError(
                f"The use of a stack is measured at the two sides of equations, which task {name!r} lacks."
            )
    model.eval()
    columns: dict[str, list[float]] = {"usage": [], "top": [], "full": []}
    for batch in dataset.batches(BATCH):
        model(batch, keep=True)
        norms = [batch.graph.ndata[name].unflatten(1, (rows, -1)).norm(dim=2) for name, rows in rows_of_stack.items()]
        used = np.mean([(norm > threshold).sum(1).numpy() for norm in norms], axis=0)
        is_inner = (batch.graph.ndata["op"] >= 0).numpy()
        is_inner[batch.roots.numpy()] = False
        tree = np.repeat(np.arange(len(batch.roots)), batch.graph.batch_num_nodes().numpy())
        count = np.bincount(tree[is_inner], minlength=len(batch.roots))
        usage = np.bincount(tree[is_inner], used[is_inner], len(batch.roots)) / np.maximum(count, 1)
        columns["usage"] += usage.tolist()
        columns["top"] += used[batch.sides.numpy()].mean(1).tolist()
    for example in dataset.examples:
        heights = np.array(example.equation.heights[1:])
        full = np.mean([np.minimum(heights[heights > 0], rows) for rows in rows_of_stack.values()], axis=0)
        columns["full"].append(float(full.mean()) if len(full) else 0.0)
    return records.of_examples(dataset.examples, columns)


EXTRAS = {
    "less stack": from_data(lambda model, dataset, _: make_ablation(model, dataset), kind="ablation"),
    "usage": from_data(lambda model, dataset, _: make_usage(model, dataset), "validation", "usage"),
}
