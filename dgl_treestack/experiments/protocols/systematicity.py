"""Systematicity: trained on depths 1-7, tested on others of the same depths. Its runs are those of productivity."""

from dgl_treestack.experiments._models import ALL_MODELS, MAIN, PAIRS, SAME, model_rows
from dgl_treestack.experiments._protocol import VALIDATION, Column, Compared, Paper, Protocol, by_metric

COLUMNS = ("train 1-7", "validation", "deep 1-7 accuracy")
PRINTED: dict[str, tuple[Paper, Paper, Paper]] = {
    "LSTM": ((85.62, None), (79.48, 4.53), (79.24, 0.006)),
    "Transformer": ((81.26, None), (74.24, 0.02), (76.45, 0.42)),
    "Tree Transformer": ((84.08, None), (74.90, 0.02), (77.80, 0.46)),
    "Tree-RNN, two layers": ((99.11, None), (89.45, 0.08), (72.41, 0.01)),
    "Tree-LSTM": ((99.86, None), (93.05, 0.12), (83.06, 0.01)),
    "Tree-SMU": ((99.59, None), (93.52, 0.28), (83.29, 0.01)),
}

PROTOCOL = Protocol(
    "Systematicity",
    "Arabshahi 2020, Table 1",
    model_rows(ALL_MODELS, {label: dict(zip(COLUMNS, row, strict=True)) for label, row in PRINTED.items()}),
    (
        Column("train 1-7", set="train", depths=(1, 7)),
        VALIDATION,
        *by_metric("deep 1-7", ("accuracy", "precision", "recall", "f1"), "deep 1-7", (1, 7)),
        *by_metric("test 1-7", ("accuracy", "pairs"), "test", (1, 7)),
    ),
    extras=("train", "deep 1-7"),
    note="The paper's test set was made in another way than its training set, as `deep` is here: with other proportions of "
    "depths, variables and constants. Test 1-7 is made as the training set is; pairs: per cent of its pairs of a correct "
    "and an incorrect equation of which the correct one has the higher score. For the Transformers the paper's Table 4 "
    "gives as validation, 76.45 ± 0.42 and 77.80 ± 0.46, what its Table 1 gives as this test. Training equations are "
    "judged by the weights of the best epoch, without dropout. The paper has three seeds. " + SAME,
    compared=(Compared(1, 7, "deep 1-7"), Compared(1, 7)),
    pairs=PAIRS,
    paper_majority={"train 1-7": 58.12, "validation": 56.67, "deep 1-7 accuracy": 60.40},
    baselines=True,
    figures={"depth": ("LSTM", "Transformer", *MAIN)},
)
