"""Localism: trained on deep equations, tested on shallow ones."""

from dgl_treestack.experiments._models import SAME, TREE_MODELS, model_rows
from dgl_treestack.experiments._protocol import VALIDATION, Column, Compared, Protocol, Row, by_metric

PAPER = {
    "Tree-RNN, two layers": {"train": (99.07, None), "validation": (88.33, 0.37), "deep 1-4 accuracy": (85.36, 0.35)},
    "Tree-LSTM": {"train": (99.79, None), "validation": (91.70, 0.28), "deep 1-4 accuracy": (91.58, 0.11)},
    "Tree-SMU": {"train": (95.04, None), "validation": (92.78, 0.09), "deep 1-4 accuracy": (98.86, 0.07)},
}

PROTOCOL = Protocol(
    "Localism",
    "Arabshahi 2020, Table 2",
    (
        *model_rows({label: TREE_MODELS[label] for label in (*PAPER, "Tree-SMU - no-op", "MTree-LSTM")}, PAPER),
        Row("Tree-SMU, one row of stack", "tree_smu", {}, {"model.settings.stack_size": 1}),
        Row("Tree-LSTM, hidden 60", "tree_lstm", {}, {"model.hidden": 60}),  # nearly as many parameters as Tree-SMU
    ),
    (
        Column("train", set="train", depths=(5, 13)),
        VALIDATION,
        *by_metric("deep 1-4", ("accuracy", "precision", "recall"), "deep 1-4", (1, 4)),
        *(Column(f"deep, depth {depth}", set="deep 1-4", depths=(depth, depth)) for depth in (3, 4)),
        *by_metric("test 1-4", ("accuracy", "pairs"), "test", (1, 4)),
    ),
    depths=(5, 13),
    extras=("train", "deep 1-4"),
    note="The paper's test set was made in another way than its training set, as `deep` is here; test 1-4 is made as the "
    "training set is; pairs: per cent of its pairs of a correct and an incorrect equation of which the correct one has the "
    "higher score. Training equations are judged by the weights of the best epoch, without dropout. Learning rates are "
    "those chosen for depths 1-7. The paper searched hidden size and dropout for every model, prints the standard deviation of "
    "Tree-LSTM on validation as 0.0.28, and does not say whether its Tree-SMU has the no-op here. " + SAME,
    compared=(Compared(1, 4, "deep 1-4"), Compared(1, 4)),
    pairs=(
        ("Tree-SMU", "Tree-LSTM"),
        ("Tree-SMU", "Tree-RNN, two layers"),
        ("Tree-LSTM", "Tree-RNN, two layers"),
        ("MTree-LSTM", "Tree-LSTM"),
        ("Tree-SMU", "Tree-SMU - no-op"),
        ("Tree-SMU", "Tree-SMU, one row of stack"),
        ("Tree-SMU", "Tree-LSTM, hidden 60"),
    ),
    paper_majority={"train": 55.08, "validation": 56.45, "deep 1-4 accuracy": 60.88},
    baselines=True,
)
