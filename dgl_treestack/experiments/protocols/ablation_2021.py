"""The models of Mali 2021."""

from dgl_treestack.experiments._models import SEEDS
from dgl_treestack.experiments._protocol import Protocol, Row, by_metric

METRICS = ("accuracy", "precision", "recall")
# Label, configuration, then accuracy, precision and recall on training, validation and test equations.
PAPER = (
    (
        "RNN",
        "rnn",
        (68.50, 69.61, 81.27),
        ((65.77, 0.44), (65.69, 0.72), (83.06, 1.24)),
        ((55.5, 0.25), (55.85, 0.61), (67.32, 3.62)),
    ),
    (
        "LSTM",
        "lstm",
        (90.03, 87.02, 97.37),
        ((85.47, 0.27), (81.97, 0.38), (95.32, 0.17)),
        ((73.09, 0.64), (73.92, 1.48), (74.34, 1.53)),
    ),
    (
        "Stack-RNN",
        "stack_rnn",
        (92.03, 86.42, 98.43),
        ((83.47, 0.35), (84.58, 0.32), (95.00, 0.27)),
        ((73.09, 0.64), (73.92, 1.48), (74.34, 1.53)),
    ),
    (
        "Tree-RNN",
        "tree_rnn_tanh",
        (94.98, 94.25, 97.29),
        ((89.27, 0.04), (87.8, 0.39), (94.16, 0.61)),
        ((81.82, 0.12), (82.66, 0.55), (82.08, 0.55)),
    ),
    (
        "Tree-LSTM",
        "tree_lstm",
        (98.51, 97.67, 99.83),
        ((93.77, 0.02), (90.92, 0.08), (98.88, 0.08)),
        ((86.8, 0.6), (83.68, 0.63), (92.54, 0.76)),
    ),
    (
        "Tree-SMU",
        "tree_smu",
        (96.71, 95.12, 99.09),
        ((92.59, 0.03), (90.55, 0.17), (98.07, 0.18)),
        ((87.51, 0.49), (84.0, 0.31), (94.21, 0.62)),
    ),
    (
        "Tree-SMU - no-op",
        "tree_smu_pushpop",
        (98.02, 97.07, 98.99),
        ((93.58, 0.21), (91.44, 0.23), (98.11, 0.09)),
        ((87.08, 0.15), (84.32, 0.52), (92.51, 0.51)),
    ),
    (
        "Tree-SMU - no-op - normalize",
        "tree_lstm_stack",
        (97.97, 96.57, 99.79),
        ((93.21, 0.2), (90.29, 0.17), (98.3, 0.12)),
        ((87.01, 0.5), (83.01, 0.62), (93.77, 0.49)),
    ),
    (
        "2nd order Tree-RNN",
        "tree_rnn_second_order-searched",
        (95.62, 94.58, 98.25),
        ((90.28, 0.07), (90.25, 0.35), (98.08, 0.2)),
        ((86.05, 0.11), (84.05, 0.3), (88.99, 0.3)),
    ),
    (
        "MI-Tree-LSTM",
        "mi_tree_lstm-searched",
        (98.8, 98.01, 99.8),
        ((94.2, 0.02), (91.5, 0.07), (98.99, 0.06)),
        ((87.8, 0.7), (84.08, 0.45), (93.0, 0.4)),
    ),
    (
        "MTree-LSTM",
        "mtree_lstm-searched",
        (98.25, 97.0, 98.81),
        ((94.09, 0.02), (91.0, 0.05), (99.0, 0.06)),
        ((87.25, 0.5), (84.29, 0.25), (93.02, 0.35)),
    ),
    (
        "MI-Tree-LSTM+stack",
        "mi_tree_lstm_stack-searched",
        (96.28, 96.0, 99.25),
        ((93.99, 0.04), (91.55, 0.15), (98.57, 0.09)),
        ((88.25, 0.81), (84.41, 0.39), (94.47, 0.61)),
    ),
    (
        "M-Tree-LSTM+stack",
        "mtree_lstm_stack-searched",
        (97.35, 97.15, 99.2),
        ((94.29, 0.02), (90.99, 0.04), (98.28, 0.09)),
        ((89.04, 0.54), (84.59, 0.47), (94.39, 0.59)),
    ),
)

CHANGES = {"Tree-SMU - no-op - normalize": {"model.settings.stack_size": 2}}  # an ablation of Tree-SMU, with its number of rows
COLUMNS = (
    *(f"train 1-7 {name}" for name in METRICS),
    *(f"validation {name}" for name in METRICS),
    *(f"test 8-13 {name}" for name in METRICS),
)

PROTOCOL = Protocol(
    "Second-order and multiplicative cells",
    "Mali 2021, Tables 2 and 3",
    tuple(
        Row(
            label,
            config,
            dict(zip(COLUMNS, (*((number, None) for number in training), *validation, *test), strict=True)),
            CHANGES.get(label, {}),
            seeds=SEEDS.get(config),
        )
        for label, config, training, validation, test in PAPER
    ),
    (
        *by_metric("train 1-7", METRICS, "train", (1, 7)),
        *by_metric("validation", METRICS, "validation"),
        *by_metric("test 8-13", METRICS, "test", (8, 13)),
    ),
    extras=("train",),
    note="The paper prints the same test numbers for Stack-RNN and LSTM. It has ten seeds, batches of 50, weight decay 2e-5, "
    "learning rates that are halved and at most 500 epochs, and searched hidden size and dropout, 0.1 to 0.3, for every "
    "model. Training equations are judged by the weights of the best epoch, without dropout",
    pairs=(
        ("Tree-SMU", "Tree-SMU - no-op"),
        ("Tree-SMU - no-op", "Tree-SMU - no-op - normalize"),
        ("Tree-SMU", "Tree-LSTM"),
        ("MI-Tree-LSTM+stack", "Tree-SMU"),
        ("M-Tree-LSTM+stack", "Tree-SMU"),
        ("M-Tree-LSTM+stack", "Tree-LSTM"),
        ("2nd order Tree-RNN", "Tree-RNN"),
        ("MI-Tree-LSTM", "Tree-LSTM"),
        ("MTree-LSTM", "Tree-LSTM"),
        ("MI-Tree-LSTM+stack", "MI-Tree-LSTM"),
        ("M-Tree-LSTM+stack", "MTree-LSTM"),
        ("Tree-LSTM", "LSTM"),
        ("LSTM", "Tree-RNN"),
    ),
    paper_majority={"train 1-7 accuracy": 58.12, "validation accuracy": 56.67, "test 8-13 accuracy": 51.71},
    baselines=True,
    figures={"depth": ("Tree-SMU", "MI-Tree-LSTM", "MTree-LSTM", "MI-Tree-LSTM+stack", "M-Tree-LSTM+stack")},
)
