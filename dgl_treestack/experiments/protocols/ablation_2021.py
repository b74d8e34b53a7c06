"""The tree models of Mali 2021, at learning rates at which they learn (configs ending in `-searched`, LOG.md)."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, train, validation


def _row(label: str, config: str, train: float, validation: tuple, accuracy: tuple, precision: tuple, recall: tuple) -> Row:
    names = ("train", "validation", "test 8-13", "precision 8-13", "recall 8-13")
    return Row(label, config, dict(zip(names, ((train, None), validation, accuracy, precision, recall), strict=True)))


PROTOCOL = Protocol(
    "Second-order and multiplicative cells",
    "Mali 2021, Tables 2 and 3",
    (
        _row("Tree-RNN", "tree_rnn_tanh", 94.98, (89.27, 0.04), (81.82, 0.12), (82.66, 0.55), (82.08, 0.55)),
        _row("Tree-LSTM", "tree_lstm", 98.51, (93.77, 0.02), (86.8, 0.6), (83.68, 0.63), (92.54, 0.76)),
        _row("Tree-SMU", "tree_smu", 96.71, (92.59, 0.03), (87.51, 0.49), (84.00, 0.31), (94.21, 0.62)),
        _row("Tree-SMU - no-op", "tree_smu_pushpop", 98.02, (93.58, 0.21), (87.08, 0.15), (84.32, 0.52), (92.51, 0.51)),
        _row("- no-op - normalize", "tree_lstm_stack", 97.97, (93.21, 0.20), (87.01, 0.50), (83.01, 0.62), (93.77, 0.49)),
        _row(
            "2nd order Tree-RNN",
            "tree_rnn_second_order-searched",
            95.62,
            (90.28, 0.07),
            (86.05, 0.11),
            (84.05, 0.30),
            (88.99, 0.30),
        ),
        _row("MI-Tree-LSTM", "mi_tree_lstm-searched", 98.80, (94.20, 0.02), (87.80, 0.7), (84.08, 0.45), (93.00, 0.40)),
        _row("MTree-LSTM", "mtree_lstm-searched", 98.25, (94.09, 0.02), (87.25, 0.5), (84.29, 0.25), (93.02, 0.35)),
        _row(
            "MI-Tree-LSTM+stack",
            "mi_tree_lstm_stack-searched",
            96.28,
            (93.99, 0.04),
            (88.25, 0.81),
            (84.41, 0.39),
            (94.47, 0.61),
        ),
        _row(
            "M-Tree-LSTM+stack", "mtree_lstm_stack-searched", 97.35, (94.29, 0.02), (89.04, 0.54), (84.59, 0.47), (94.39, 0.59)
        ),
    ),
    (
        Column("train", train),
        Column("validation", validation),
        Column("test 8-13", tested(8, 13)),
        Column("precision 8-13", tested(8, 13, "precision")),
        Column("recall 8-13", tested(8, 13, "recall")),
    ),
    drawn=("Tree-SMU", "MI-Tree-LSTM", "MTree-LSTM", "MI-Tree-LSTM+stack", "M-Tree-LSTM+stack"),
)
