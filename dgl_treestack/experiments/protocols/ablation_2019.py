"""The seven models of Arabshahi 2019."""

from collections.abc import Mapping, Sequence

from dgl_treestack.experiments._protocol import Paper, Protocol, Row, by_metric

METRICS = ("accuracy", "precision", "recall")
SETS = ("train 1-7", "validation", "test 8-13")
# Configuration; accuracy, precision and recall on training equations, on validation equations and on test equations.
PAPER: Mapping[str, tuple[str, tuple[float, ...], tuple[float, ...], tuple[Paper, ...]]] = {
    "Tree-RNN": (
        "tree_rnn_tanh",
        (96.03, 95.36, 97.94),
        (89.11, 87.79, 93.84),
        ((80.67, 0.92), (82.63, 0.07), (79.29, 2.26)),
    ),
    "Tree-RNN+stack": (
        "tree_rnn_stack-tanh",
        (95.92, 95.74, 97.32),
        (88.88, 87.37, 93.95),
        ((78.02, 0.12), (81.28, 1.75), (74.74, 2.29)),
    ),
    "Tree-RNN+stack+no-op": (
        "tree_rnn_stack_noop-tanh",
        (95.86, 96.40, 96.49),
        (88.44, 87.21, 93.29),
        ((78.87, 1.10), (83.23, 0.95), (74.10, 3.91)),
    ),
    "Tree-LSTM": (
        "tree_lstm",
        (99.34, 99.40, 99.47),
        (93.86, 92.67, 96.82),
        ((83.64, 1.23), (86.96, 0.89), (80.45, 3.83)),
    ),
    "Tree-LSTM+stack": (
        "tree_lstm_stack",
        (99.23, 99.19, 99.49),
        (93.31, 92.36, 96.15),
        ((85.24, 0.25), (85.13, 0.59), (86.59, 0.86)),
    ),
    "+normalize": (
        "tree_lstm_stack_normalise",
        (98.76, 98.59, 99.29),
        (93.32, 92.23, 96.33),
        ((84.44, 1.77), (85.49, 0.55), (84.16, 3.38)),
    ),
    "+normalize+no-op": (
        "tree_lstm_stack_normalise_noop",
        (98.34, 98.13, 99.04),
        (93.84, 92.60, 96.87),
        ((86.01, 0.74), (86.27, 1.14), (86.78, 2.70)),
    ),
}


def printed(training: Sequence[float], validation: Sequence[float], test: Sequence[Paper]) -> dict[str, Paper]:
    """Return the paper's numbers by the titles of columns."""
    numbers = [*((number, None) for number in (*training, *validation)), *test]
    return dict(zip([f"{name} {metric}" for name in SETS for metric in METRICS], numbers, strict=True))


PROTOCOL = Protocol(
    "Ablation of the stack",
    "Arabshahi 2019, Table 2",
    tuple(
        Row(label, config, printed(training, validation, test)) for label, (config, training, validation, test) in PAPER.items()
    ),
    (
        *by_metric("train 1-7", METRICS, "train", (1, 7)),
        *by_metric("validation", METRICS, "validation"),
        *by_metric("test 8-13", METRICS, "test", (8, 13)),
    ),
    extras=("train",),
    note="Training equations are judged by the weights of the best epoch, without dropout. All stacks have five rows. The "
    "paper has three seeds, a learning rate of 1e-3, and 52 to 58 % correct equations, where ours are half correct; it prints "
    "neither batch nor epochs. Precision and recall are those of correct equations. A row with a stack also has more gates "
    "and parameters than one without (below, among the settings), so that a difference is not that of the memory alone. "
    "+normalize and +normalize+no-op are Tree-LSTM+stack with these",
    pairs=(
        ("Tree-RNN+stack", "Tree-RNN"),
        ("Tree-RNN+stack+no-op", "Tree-RNN+stack"),
        ("Tree-RNN+stack+no-op", "Tree-RNN"),
        ("Tree-LSTM", "Tree-RNN"),
        ("Tree-LSTM+stack", "Tree-LSTM"),
        ("+normalize", "Tree-LSTM+stack"),
        ("+normalize", "Tree-LSTM"),
        ("+normalize+no-op", "+normalize"),
        ("+normalize+no-op", "Tree-LSTM"),
    ),
    paper_majority={"train 1-7 accuracy": 58.12, "validation accuracy": 56.67, "test 8-13 accuracy": 51.71},
    baselines=True,
)
