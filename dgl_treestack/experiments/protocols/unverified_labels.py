"""Labels as the papers make them: what models and counts reach on them, and what such models know of certified equations."""

from dataclasses import replace

from dgl_treestack.experiments._protocol import BEST_EPOCH, Column, Compared, Protocol, by_metric
from dgl_treestack.experiments.protocols import ablation_2021

METRICS = ("accuracy", "precision", "recall")
PRINTED = [f"{name} {metric}" for name in ("validation", "test 8-13") for metric in METRICS]
MODELS = ("LSTM", "Tree-RNN", "Tree-LSTM", "Tree-SMU", "MTree-LSTM")
ROWS = tuple(row for row in ablation_2021.PROTOCOL.rows if row.label in MODELS)

PROTOCOL = Protocol(
    "Unverified labels",
    "Labels made in the way of Arabshahi 2019, 2020 and Mali 2021. The numbers are those of Mali 2021, Tables 2 and 3",
    tuple(replace(row, paper={title: row.paper[title] for title in PRINTED if title in row.paper}) for row in ROWS),
    (
        BEST_EPOCH,
        *by_metric("validation", METRICS, "validation"),
        *by_metric("test 8-13", METRICS, "test", (8, 13)),
        Column("certified, 1-7", set="certified", depths=(1, 7)),
        Column("certified, 8-13", set="certified", depths=(8, 13)),
    ),
    data="paper-labels",
    extras=("certified",),
    compared=(Compared(8, 13), Compared(8, 13, "certified")),
    pairs=(
        ("Tree-SMU", "Tree-LSTM"),
        ("Tree-LSTM", "Tree-RNN"),
        ("Tree-LSTM", "LSTM"),
        ("MTree-LSTM", "Tree-LSTM"),
    ),
    paper_majority={"validation accuracy": 56.67, "test 8-13 accuracy": 51.71},
    seeds=3,
    unit="Epochs and per cent",
    note="Trained and tested on the set `paper-labels` (at scale `smoke` on the bundled equations): made as the papers make "
    "their equations, true ones derived and false ones a mutation away from those, with labels that nobody verified. The "
    "equations of the papers themselves were not published with their programs. "
    "Certified: the test set of `paper`, in which true and false equations are balanced in counts; 13 of its 3,394 equations "
    "of depth 1-7, and none deeper, are also in the training set. Learning rates are those chosen on `paper`",
    baselines=True,
)
