"""How many epochs a model takes to its best validation accuracy."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, best_epoch, validation


def _row(label: str, config: str, epochs: float, accuracy: tuple[float, float]) -> Row:
    return Row(label, config, {"best epoch": (epochs, None), "validation": accuracy})


PROTOCOL = Protocol(
    "Convergence",
    "Mali 2021, Table 4 (printed under the caption of Table 5)",
    (
        _row("Tree-LSTM", "tree_lstm", 135, (93.77, 0.02)),
        _row("Tree-SMU", "tree_smu", 99, (93.58, 0.21)),
        _row("MTree-LSTM", "mtree_lstm-searched", 102, (94.09, 0.02)),
        _row("MI-Tree-LSTM+stack", "mi_tree_lstm_stack-searched", 95, (93.99, 0.04)),
        _row("M-Tree-LSTM+stack", "mtree_lstm_stack-searched", 91, (94.29, 0.02)),
        _row("2nd order Tree-RNN", "tree_rnn_second_order-searched", 98, (90.28, 0.07)),
    ),
    (Column("best epoch", best_epoch), Column("validation", validation)),
    figures=("epochs",),
    note="Its accuracy of Tree-SMU is the one that its Table 2 has without no-op",
    unit="Epochs and per cent",
)
