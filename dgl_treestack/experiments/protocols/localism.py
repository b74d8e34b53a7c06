"""Localism: trained on deep equations, tested on shallow ones."""

from dgl_treestack.experiments._models import MAIN, SAME, TREE_MODELS, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, tested, validation

PAPER = {
    "Tree-RNN, two layers": {"train": (99.07, None), "validation": (88.33, 0.37), "test 1-4": (85.36, 0.35)},
    "Tree-LSTM": {"train": (99.79, None), "validation": (91.70, 0.28), "test 1-4": (91.58, 0.11)},
    "Tree-SMU": {"train": (95.04, None), "validation": (92.78, 0.09), "test 1-4": (98.86, 0.07)},
}

PROTOCOL = Protocol(
    "Localism",
    "Arabshahi 2020, Table 2",
    model_rows(TREE_MODELS, PAPER),
    (Column("train", tested(5, 13, extra="train")), Column("validation", validation), Column("test 1-4", tested(1, 4))),
    depths=(5, 13),
    extras=("train",),
    note="Training equations are judged by the weights of the best epoch, without dropout. " + SAME,
    compared=(Compared(1, 4),),
    pairs=(
        ("Tree-SMU", "Tree-LSTM"),
        ("Tree-LSTM", "Tree-RNN, two layers"),
        ("MTree-LSTM", "Tree-LSTM"),
        ("M-Tree-LSTM+stack", "MTree-LSTM"),
    ),
    paper_majority={"train": 55.08, "validation": 56.45, "test 1-4": 60.88},
    baselines=True,
    figures={"depth": MAIN},
)
