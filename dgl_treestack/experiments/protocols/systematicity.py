"""Systematicity: trained on depths 1-7, tested on others of the same depths. Its runs are those of productivity."""

from dgl_treestack.experiments._models import ALL_MODELS, MAIN, SAME, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, tested, train, validation
from dgl_treestack.experiments.protocols import productivity

PRINTED = ("train", "validation", "test 1-7")
PAPER = {label: {title: numbers[title] for title in PRINTED} for label, numbers in productivity.PAPER.items()}

PROTOCOL = Protocol(
    "Systematicity",
    "Arabshahi 2020, Table 1",
    model_rows(ALL_MODELS, PAPER),
    (
        Column("train", train),
        Column("validation", validation),
        Column("test 1-7", tested(1, 7)),
        Column("precision 1-7", tested(1, 7, "precision")),
        Column("recall 1-7", tested(1, 7, "recall")),
        Column("f1 1-7", tested(1, 7, "f1")),
        Column("pairs 1-7", tested(1, 7, "pairs")),
        Column("test 1-7 of deep", tested(1, 7, extra="deep")),
    ),
    extras=("deep",),
    note="The paper tests on a set that was made in another way than its training set; here the test set of `paper` is made as "
    "its training set is, and `deep` with other proportions of depths and no family in common with it. " + SAME,
    compared=(Compared(1, 7), Compared(1, 7, "deep")),
    drawn=("LSTM", "Transformer", *MAIN),
    baselines=True,
)
