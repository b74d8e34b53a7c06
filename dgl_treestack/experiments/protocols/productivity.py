"""Productivity and systematicity: trained on depths 1-7, tested on 1-7 and beyond."""

from dgl_treestack.experiments._models import MAIN, every_model
from dgl_treestack.experiments._protocol import Column, Protocol, tested, train, validation

PAPER = {
    "LSTM": {"train": (85.62, None), "validation": (79.48, 4.53), "test 1-7": (79.24, 0.006), "test 8-19": (68.36, 0.42)},
    "Transformer": {"train": (81.26, None), "validation": (74.24, 0.02), "test 1-7": (76.45, 0.42), "test 8-19": (61.05, 1.53)},
    "Tree Transformer": {
        "train": (84.08, None),
        "validation": (74.90, 0.02),
        "test 1-7": (77.80, 0.46),
        "test 8-19": (62.12, 1.06),
    },
    "Tree-RNN": {"train": (99.11, None), "validation": (89.45, 0.08), "test 1-7": (72.41, 0.01), "test 8-19": (68.95, 0.24)},
    "Tree-LSTM": {"train": (99.86, None), "validation": (93.05, 0.12), "test 1-7": (83.06, 0.01), "test 8-19": (77.58, 0.19)},
    "Tree-SMU": {"train": (99.59, None), "validation": (93.52, 0.28), "test 1-7": (83.29, 0.01), "test 8-19": (79.57, 0.16)},
}

PROTOCOL = Protocol(
    "Productivity and systematicity",
    "Arabshahi 2020, Tables 1 and 4: the paper's deeper tests are of depth 8-19, which are those of the set `deep` here",
    every_model(PAPER),
    (
        Column("train", train),
        Column("validation", validation),
        Column("test 1-7", tested(1, 7)),
        Column("test 8-13", tested(8, 13)),
        Column("pairs 8-13", tested(8, 13, "pairs")),
        Column("test 8-19", tested(8, 19, extra="deep")),
        Column("precision 8-19", tested(8, 19, "precision", extra="deep")),
        Column("recall 8-19", tested(8, 19, "recall", extra="deep")),
        Column("pairs 8-19", tested(8, 19, "pairs", extra="deep")),
    ),
    extras=("deep",),
    drawn=("LSTM", "Transformer", *MAIN),
)
