"""Productivity and systematicity: trained on depths 1-7, tested on 1-7 and beyond."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, train, validation

PROTOCOL = Protocol(
    "Productivity and systematicity",
    "Arabshahi 2020, Tables 1 and 4: the paper's deeper tests are of depth 8-19",
    (
        Row(
            "Tree-RNN",
            "tree_rnn_tanh",
            {"train": (99.11, None), "validation": (89.45, 0.08), "test 1-7": (72.41, 0.01), "test 8-19": (68.95, 0.24)},
        ),
        Row(
            "Tree-LSTM",
            "tree_lstm",
            {"train": (99.86, None), "validation": (93.05, 0.12), "test 1-7": (83.06, 0.01), "test 8-19": (77.58, 0.19)},
        ),
        Row(
            "Tree-SMU",
            "tree_smu",
            {"train": (99.59, None), "validation": (93.52, 0.28), "test 1-7": (83.29, 0.01), "test 8-19": (79.57, 0.16)},
        ),
    ),
    (
        Column("train", train),
        Column("validation", validation),
        Column("test 1-7", tested(1, 7)),
        Column("test 8-13", tested(8, 13)),
        Column("test 8-19", tested(8, 19, deep=True)),
        Column("precision 8-19", tested(8, 19, "precision", deep=True)),
        Column("recall 8-19", tested(8, 19, "recall", deep=True)),
    ),
    deep=True,
)
