"""The models of the papers' tables, ours beside them, and the configurations that train them.

Tree-RNN cells have tanh in place of the sigmoid of 2019, and Mali's cells have searched learning rates: with the printed
settings they do not learn (docs/log).
"""

from collections.abc import Mapping

from dgl_treestack.experiments._protocol import Paper, Row

SEQUENCE_MODELS = {
    "RNN": "rnn",
    "LSTM": "lstm",
    "Stack-RNN": "stack_rnn",
    "Transformer": "transformer",
    "Tree Transformer": "tree_transformer",
}
TREE_MODELS = {
    "Tree-RNN": "tree_rnn_tanh",
    "Tree-RNN, two layers": "tree_rnn_two_layers-tanh",  # that of 2020
    "Tree-RNN+stack": "tree_rnn_stack-tanh",
    "Tree-RNN+stack+no-op": "tree_rnn_stack_noop-tanh",
    "Tree-LSTM": "tree_lstm",
    "Tree-LSTM+stack": "tree_lstm_stack",
    "Tree-LSTM+stack+normalize": "tree_lstm_stack_normalise",
    "Tree-LSTM+stack+normalize+no-op": "tree_lstm_stack_normalise_noop",
    "Tree-SMU": "tree_smu",
    "Tree-SMU - no-op": "tree_smu_pushpop",
    "2nd order Tree-RNN": "tree_rnn_second_order-searched",
    "MI-Tree-LSTM": "mi_tree_lstm-searched",
    "MTree-LSTM": "mtree_lstm-searched",
    "MI-Tree-LSTM+stack": "mi_tree_lstm_stack-searched",
    "M-Tree-LSTM+stack": "mtree_lstm_stack-searched",
    "Tree-Slots": "beyond/tree_slots",  # ours, in none of the papers
}
ALL_MODELS = {**SEQUENCE_MODELS, **TREE_MODELS}
FIRST_ORDER = {  # Mali's cells without the second-order terms
    f"{label}, first order": name
    for label, name in (
        ("MTree-LSTM", "mtree_lstm_first_order-searched"),
        ("MI-Tree-LSTM", "mi_tree_lstm_first_order-searched"),
        ("MI-Tree-LSTM+stack", "mi_tree_lstm_stack_first_order-searched"),
        ("M-Tree-LSTM+stack", "mtree_lstm_stack_first_order-searched"),
    )
}
SAME = "Tree-SMU is Tree-LSTM+stack+normalize+no-op with two rows of stack in place of five"
MAIN = ("Tree-RNN, two layers", "Tree-LSTM", "Tree-SMU", "MI-Tree-LSTM+stack", "M-Tree-LSTM+stack")  # drawn in figures
PAIRS = (  # what productivity and systematicity ask: is the first more accurate?
    ("Tree-SMU", "Tree-LSTM"),
    ("Tree-LSTM", "Tree-RNN, two layers"),
    ("Tree-SMU", "Tree-SMU - no-op"),
    ("MTree-LSTM", "Tree-LSTM"),
    ("M-Tree-LSTM+stack", "MTree-LSTM"),
    ("Tree-LSTM", "LSTM"),
    ("Tree-LSTM", "Transformer"),
)


def model_rows(models: Mapping[str, str], paper: Mapping[str, Mapping[str, Paper]]) -> tuple[Row, ...]:
    """Return a row per model.

    models: configurations by label. paper: the paper's numbers, by label and column; all of its labels are in `models`.
    """
    assert paper.keys() <= models.keys()
    return tuple(Row(label, config, paper.get(label, {})) for label, config in models.items())
