"""How well the states of models that learned values tell them, by the height of the subtree (docs/beyond.md)."""

from dgl_treestack.experiments._protocol import OURS, VALIDATION, Column, Protocol
from dgl_treestack.experiments.protocols import beyond
from dgl_treestack.results.metrics import read_out

LABELS = ("Tree-Slots", "one slot", "Tree-LSTM, values", "Tree-SMU, values")
HEIGHTS = (1, 3, 5, 7, 9)

PROTOCOL = Protocol(
    "Values that states tell",
    OURS,
    tuple(row for row in beyond.PROTOCOL.rows if row.label in LABELS),
    (
        VALIDATION,
        *(Column(f"median error, height {height}", read_out(height, 0), "values") for height in HEIGHTS),
        *(Column(f"correlation, height {height}", read_out(height, 1), "values") for height in HEIGHTS),
    ),
    extras=("values",),
    figures={"values": ()},
    unit="Per cent, hundredths of asinh of a value, and correlation times 100",
    note="Subtrees of the test set, at most 400 of a height; the network of the value signal reads their states",
)
