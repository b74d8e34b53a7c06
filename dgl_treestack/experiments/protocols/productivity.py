"""Productivity: trained on depths 1-7, tested on 1-7 and beyond."""

from dgl_treestack.experiments._models import ALL_MODELS, MAIN, PAIRS, SAME, model_rows
from dgl_treestack.experiments._protocol import BEYOND, Paper, Protocol, by_metric

METRICS = ("accuracy", "precision", "recall")
# Table 4: accuracy, precision and recall on training, validation and test equations.
PRINTED = {
    "LSTM": (
        (85.62, 82.14, 97.15),
        ((79.48, 4.53), (76.18, 5.01), (93.71, 0.80)),
        ((68.36, 0.42), (72.87, 7.01), (60.25, 14.89)),
    ),
    "Transformer": (
        (81.26, 78.36, 93.67),
        ((76.45, 0.42), (73.63, 0.80), (91.11, 1.93)),
        ((61.05, 1.53), (59.96, 1.50), (60.35, 7.28)),
    ),
    "Tree Transformer": (
        (84.08, 80.93, 95.03),
        ((77.80, 0.46), (74.97, 0.87), (91.36, 1.25)),
        ((62.12, 1.06), (60.63, 1.54), (63.68, 2.93)),
    ),
    "Tree-RNN, two layers": (
        (99.11, 98.92, 99.56),
        ((89.45, 0.08), (88.47, 0.27), (93.57, 0.40)),
        ((68.95, 0.24), (81.82, 1.42), (46.60, 1.74)),
    ),
    "Tree-LSTM": (
        (99.86, 99.80, 99.96),
        ((93.05, 0.12), (89.67, 1.32), (98.36, 0.51)),
        ((77.58, 0.19), (79.50, 0.22), (72.69, 0.25)),
    ),
    "Tree-SMU": (
        (99.59, 99.31, 99.98),
        ((93.52, 0.28), (91.08, 0.49), (98.19, 0.10)),
        ((79.57, 0.16), (80.56, 2.11), (76.63, 3.15)),
    ),
}
COLUMNS = [f"{name} {metric}" for name in ("train 1-7", "validation", "deep 8-19") for metric in METRICS]
PAPER: dict[str, dict[str, Paper]] = {
    label: dict(zip(COLUMNS, (*((number, None) for number in training), *validation, *test), strict=True))
    for label, (training, validation, test) in PRINTED.items()
}

PROTOCOL = Protocol(
    "Productivity",
    "Arabshahi 2020, Tables 1 and 4",
    model_rows(ALL_MODELS, PAPER),
    (
        *by_metric("train 1-7", METRICS, "train", (1, 7)),
        *by_metric("validation", METRICS, "validation"),
        *by_metric("deep 8-19", METRICS, "deep 8-19", (8, 19)),
        *by_metric("test 8-13", ("accuracy", "pairs"), "test", (8, 13)),
    ),
    extras=("train", "deep 8-19"),
    note="As in the paper, the test set of depths 8-19, `deep`, is made in another way than the training set: with other "
    "proportions of depths, variables and constants. Test 8-13 is made as the training set is; pairs: per cent of its "
    "pairs of a correct and an incorrect equation of which the correct one has the higher score. The Transformers' "
    "validation is that of the paper's Table 4; its Table 1 has 74.24 ± 0.02 and 74.90 ± 0.02. Training equations are "
    "judged by the weights of the best epoch, without dropout. The paper has three seeds, and searched hidden size and "
    "dropout for every model. " + SAME,
    paper_majority={"train 1-7 accuracy": 58.12, "validation accuracy": 56.67, "deep 8-19 accuracy": 51.71},
    compared=BEYOND,
    pairs=PAIRS,
    baselines=True,
    figures={"depth": ("LSTM", "Transformer", *MAIN)},
)
