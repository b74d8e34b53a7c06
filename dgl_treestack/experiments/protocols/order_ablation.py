"""Mali's cells with their second-order terms and without."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, validation

# Label, configuration, accuracy on test equations.
PAPER = (
    ("MTree-LSTM", "mtree_lstm-searched", 87.25),
    ("MTree-LSTM, first order", "mtree_lstm_first_order-searched", 84.59),
    ("MI-Tree-LSTM", "mi_tree_lstm-searched", 87.80),
    ("MI-Tree-LSTM, first order", "mi_tree_lstm_first_order-searched", 84.59),
    ("MI-Tree-LSTM+stack", "mi_tree_lstm_stack-searched", 88.25),
    ("MI-Tree-LSTM+stack, first order", "mi_tree_lstm_stack_first_order-searched", 86.51),
    ("M-Tree-LSTM+stack", "mtree_lstm_stack-searched", 89.04),
    ("M-Tree-LSTM+stack, first order", "mtree_lstm_stack_first_order-searched", 86.88),
)

PROTOCOL = Protocol(
    "Second order against first",
    "Mali 2021, Table 5 (printed under the caption of Table 4)",
    tuple(Row(label, config, {"test 8-13": (accuracy, None)}) for label, config, accuracy in PAPER),
    (Column("validation", validation), Column("test 8-13", tested(8, 13))),
    pairs=tuple((second[0], first[0]) for second, first in zip(PAPER[::2], PAPER[1::2], strict=True)),
    seeds=3,
)
