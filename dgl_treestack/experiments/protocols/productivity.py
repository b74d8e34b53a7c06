"""Productivity: trained on depths 1-7, tested on 1-7 and beyond."""

from dgl_treestack.experiments._models import ALL_MODELS, MAIN, SAME, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, tested, train, validation

COLUMNS = ("train", "validation", "test 1-7", "test 8-19", "precision 8-19", "recall 8-19")
PRINTED = {
    "LSTM": ((85.62, None), (79.48, 4.53), (79.24, 0.006), (68.36, 0.42), (72.87, 7.01), (60.25, 14.89)),
    "Transformer": ((81.26, None), (74.24, 0.02), (76.45, 0.42), (61.05, 1.53), (59.96, 1.50), (60.35, 7.28)),
    "Tree Transformer": ((84.08, None), (74.90, 0.02), (77.80, 0.46), (62.12, 1.06), (60.63, 1.54), (63.68, 2.93)),
    "Tree-RNN": ((99.11, None), (89.45, 0.08), (72.41, 0.01), (68.95, 0.24), (81.82, 1.42), (46.60, 1.74)),
    "Tree-LSTM": ((99.86, None), (93.05, 0.12), (83.06, 0.01), (77.58, 0.19), (79.50, 0.22), (72.69, 0.25)),
    "Tree-SMU": ((99.59, None), (93.52, 0.28), (83.29, 0.01), (79.57, 0.16), (80.56, 2.11), (76.63, 3.15)),
}
PAPER = {label: dict(zip(COLUMNS, values, strict=True)) for label, values in PRINTED.items()}

PROTOCOL = Protocol(
    "Productivity",
    "Arabshahi 2020, Tables 1 and 4",
    model_rows(ALL_MODELS, PAPER),
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
    note="The paper's deeper tests are of depth 8-19, which are those of the set `deep` here. What its Table 1 gives for the "
    "Transformers on depths 1-7, its Table 4 gives as their validation. " + SAME,
    compared=(Compared(8, 13), Compared(8, 19, "deep")),
    drawn=("LSTM", "Transformer", *MAIN),
    baselines=True,
)
