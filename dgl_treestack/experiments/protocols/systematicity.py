"""Systematicity: trained on depths 1-7, tested on others of the same depths. Its runs are those of productivity."""

from dgl_treestack.experiments._models import ALL_MODELS, MAIN, PAIRS, SAME, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, tested, validated
from dgl_treestack.experiments.protocols import productivity

PRINTED = ("train 1-7 accuracy", "validation accuracy", "test 1-7 accuracy")
PAPER = {label: {title: numbers[title] for title in PRINTED} for label, numbers in productivity.PAPER.items()}
PAPER["Transformer"]["validation accuracy"] = (74.24, 0.02)  # Table 1 and Table 4 differ
PAPER["Tree Transformer"]["validation accuracy"] = (74.90, 0.02)
METRICS = ("accuracy", "precision", "recall", "f1", "pairs")

PROTOCOL = Protocol(
    "Systematicity",
    "Arabshahi 2020, Table 1",
    model_rows(ALL_MODELS, PAPER),
    (
        Column("train 1-7 accuracy", tested(1, 7, extra="train")),
        Column("validation accuracy", validated("accuracy")),
        *(Column(f"test 1-7 {name}", tested(1, 7, name)) for name in METRICS),
        Column("test 1-7 of deep", tested(1, 7, extra="deep")),
    ),
    extras=("train", "deep"),
    note="The paper's test set was made in another way than its training set. Here the test set of `paper` is made as its "
    "training set is, and `deep` with other proportions of depths, variables and constants. For the Transformers the paper's "
    "Table 4 gives as validation what its Table 1 gives as this test. " + SAME,
    compared=(Compared(1, 7), Compared(1, 7, "deep")),
    pairs=PAIRS,
    paper_majority={"train 1-7 accuracy": 58.12, "validation accuracy": 56.67, "test 1-7 accuracy": 60.40},
    baselines=True,
    figures={"depth": ("LSTM", "Transformer", *MAIN)},
)
