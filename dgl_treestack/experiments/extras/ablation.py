"""What a trained model uses its stack for: its answers when rows, or an action, are taken away."""

from collections import defaultdict

import torch

from dgl_treestack.cells.memory import stack
from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.experiments.extras._extra import from_data
from dgl_treestack.model.dataset import ExampleSet
from dgl_treestack.model.model import Model

BATCH = 256


@torch.no_grad()
def make_records(model: Model, dataset: ExampleSet) -> Table:
    """Return a row per labelled equation, in order, with columns that say whether the model is right, 1 or 0.

    `rows 0`, `rows 1`, ...: with so many rows of every stack, the others emptied after every update; the last column is the
    model itself. `without push`, ...: with this action switched off, see `memory.stack.limited`.
    Raises ConfigurationError for a model without stacks, or with a task at nodes.
    """
    if "stack" not in model.tree_cell.fields:
        raise ConfigurationError("The model has no stack from which rows could be taken away.")
    if any(head.at_nodes for head in model.heads.values()):
        raise ConfigurationError("The model classifies nodes; rows are taken away from models of whole trees only.")
    dataset = dataset.with_targets()
    model.eval()
    size = model.tree_cell.fields["stack"][0]
    limits: dict[str, tuple[int | None, str]] = {f"rows {rows}": (rows, "") for rows in range(size + 1)}
    limits |= {f"without {action}": (None, action) for action in stack.ACTIONS if action in model.tree_cell.signals}
    right: dict[str, list[int]] = defaultdict(list)
    for batch in dataset.batches(BATCH):
        for name, (rows, action) in limits.items():
            with stack.limited(rows, action):
                right[name] += model.correct(model(batch), batch).int().tolist()
    return records.of_examples(dataset.examples, right)


EXTRAS = {"less stack": from_data(lambda model, dataset, _: make_records(model, dataset), kind="ablation")}
