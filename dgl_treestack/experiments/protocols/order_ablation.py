"""Mali's cells with their second-order terms and without."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, validation


def _row(label: str, config: str, accuracy: float) -> Row:
    return Row(label, config, {"test 8-13": (accuracy, None)})


PROTOCOL = Protocol(
    "Second order against first",
    "Mali 2021, Table 5 (printed under the caption of Table 4)",
    (
        _row("MTree-LSTM", "mtree_lstm-searched", 87.25),
        _row("MTree-LSTM, first order", "mtree_lstm_first_order-searched", 84.59),
        _row("MI-Tree-LSTM", "mi_tree_lstm-searched", 87.80),
        _row("MI-Tree-LSTM, first order", "mi_tree_lstm_first_order-searched", 84.59),
        _row("MI-Tree-LSTM+stack", "mi_tree_lstm_stack-searched", 88.25),
        _row("MI-Tree-LSTM+stack, first order", "mi_tree_lstm_stack_first_order-searched", 86.51),
        _row("M-Tree-LSTM+stack", "mtree_lstm_stack-searched", 89.04),
        _row("M-Tree-LSTM+stack, first order", "mtree_lstm_stack_first_order-searched", 86.88),
    ),
    (Column("validation", validation), Column("test 8-13", tested(8, 13))),
)
