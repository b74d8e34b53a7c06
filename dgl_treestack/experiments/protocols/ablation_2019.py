"""The seven models of Arabshahi 2019. Its Tree-RNN cells have a sigmoid; ours have tanh, with which they learn (docs/log)."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, train, validation

COLUMNS = ("train", "validation", "test 8-13", "precision 8-13", "recall 8-13")
# Label, configuration, then the columns.
PAPER = (
    ("Tree-RNN", "tree_rnn_tanh", (96.03, None), (89.11, None), (80.67, 0.92), (82.63, 0.07), (79.29, 2.26)),
    ("Tree-RNN+stack", "tree_rnn_stack-tanh", (95.92, None), (88.88, None), (78.02, 0.12), (81.28, 1.75), (74.74, 2.29)),
    (
        "Tree-RNN+stack+no-op",
        "tree_rnn_stack_noop-tanh",
        *((95.86, None), (88.44, None), (78.87, 1.10), (83.23, 0.95), (74.10, 3.91)),
    ),
    ("Tree-LSTM", "tree_lstm", (99.34, None), (93.86, None), (83.64, 1.23), (86.96, 0.89), (80.45, 3.83)),
    ("Tree-LSTM+stack", "tree_lstm_stack", (99.23, None), (93.31, None), (85.24, 0.25), (85.13, 0.59), (86.59, 0.86)),
    ("+normalize", "tree_lstm_stack_normalise", (98.76, None), (93.32, None), (84.44, 1.77), (85.49, 0.55), (84.16, 3.38)),
    (
        "+normalize+no-op",
        "tree_lstm_stack_normalise_noop",
        *((98.34, None), (93.84, None), (86.01, 0.74), (86.27, 1.14), (86.78, 2.70)),
    ),
)

PROTOCOL = Protocol(
    "Ablation of the stack",
    "Arabshahi 2019, Table 2",
    tuple(Row(label, config, dict(zip(COLUMNS, numbers, strict=True))) for label, config, *numbers in PAPER),
    (
        Column("train", train),
        Column("validation", validation),
        Column("test 8-13", tested(8, 13)),
        Column("precision 8-13", tested(8, 13, "precision")),
        Column("recall 8-13", tested(8, 13, "recall")),
    ),
)
